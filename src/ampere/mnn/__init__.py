"""MNN: trains networks of layers by Alibaba's engine for phones and boards."""
