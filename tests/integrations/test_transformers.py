"""Types of transformers by name: exact sums at full size, training of small ones, no network."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

if find_spec("transformers") is None:
    pytest.skip("pip install 'ampere-energy[transformers]'", allow_module_level=True)

from ampere.core.training import Training
from ampere.core.workloads import ModelSpec, Settings, Workload
from ampere.errors import ModelError
from ampere.frameworks.models import layers_of
from ampere.pytorch.runtime.loader import load_model
from ampere.pytorch.runtime.trainer import make_trainer

from .counting import counts_of_layers, counts_of_whole

BERT = "num_hidden_layers=2, hidden_size=32, num_attention_heads=2, intermediate_size=64"
SMALL = {
    "bert": f"{BERT}, vocab_size=100, sequence=16",
    "gpt2": "n_layer=2, n_embd=32, n_head=2, vocab_size=100, sequence=16",
    "llama": f"{BERT}, num_key_value_heads=2, vocab_size=100, sequence=16",
    "vit": f"{BERT}, image_size=32, patch_size=8",
    "t5": "num_layers=2, num_decoder_layers=2, d_model=32, d_kv=16, d_ff=64, num_heads=2,"
    " vocab_size=100, sequence=16",
    "whisper": "encoder_layers=2, decoder_layers=2, d_model=32, encoder_attention_heads=2,"
    " decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64,"
    " max_source_positions=50, sequence=16",
}


@pytest.mark.parametrize(
    ("name", "input"),
    [
        ("hf:bert", "input_ids=128:int64<30522, labels=128:int64<30522"),
        ("hf:gpt2(sequence=512)", "input_ids=512:int64<50257, labels=512:int64<50257"),
        ("hf:llama", "input_ids=128:int64<32000, labels=128:int64<32000"),
        ("hf:vit", "pixel_values=3x224x224, labels=1:int64<2"),
        ("hf:t5", "input_ids=128:int64<32128, labels=128:int64<32128"),
        ("hf:whisper", "input_features=80x3000, labels=128:int64<51865"),
        ("hf:bert(task='classification')", "input_ids=128:int64<30522, labels=1:int64<2"),
        ("hf:bert(task='token-classification')", ""),
        ("hf:bert(task='question-answering', attn_implementation='eager')", ""),
        ("hf:roberta", ""),
        ("hf:distilbert", ""),
        ("hf:qwen3(num_hidden_layers=2)", ""),
        ("hf:convnext", ""),
        ("hf:swin", ""),
    ],
)
def test_sums_are_exact(name: str, input: str) -> None:
    if input:
        assert str(load_model(name, hollow=True)[1]) == input
    assert counts_of_layers(name) == counts_of_whole(name)


@pytest.mark.parametrize("kind", SMALL)
def test_it_trains_by_name_and_from_its_layers(kind: str) -> None:
    spec = ModelSpec(f"hf:{kind}({SMALL[kind]})", None, Training(2))
    by_name = make_trainer(Workload(model=spec), Settings(threads=1))
    layers = layers_of(spec)
    sent = json.loads(json.dumps(Workload(layers).to_json()))
    from_layers = make_trainer(Workload.from_json(sent), Settings(threads=1))
    for trainer in (by_name, from_layers):
        trainer.step()
        assert trainer.forward()[0].dim() == 0  # a loss
    params = {name: p.numel() for name, p in by_name.model.named_parameters()}
    assert sum(layer.params or 0 for layer in layers) == sum(params.values())


def test_one_that_looks_at_values_is_read() -> None:
    name = f"hf:gpt2({SMALL['gpt2']}, task='classification')"
    layers = layers_of(ModelSpec(name, None, Training(2)))
    model, _ = load_model(name)
    assert sum(layer.params or 0 for layer in layers) == sum(p.numel() for p in model.parameters())


def test_a_folder_is_for_what_it_says(tmp_path: Path) -> None:
    row = {"model_type": "bert", "architectures": ["BertForTokenClassification"],
           "hidden_size": 32, "num_attention_heads": 2, "num_hidden_layers": 1,
           "intermediate_size": 64, "vocab_size": 100, "id2label": {"0": "a", "1": "b", "2": "c"},
           "_attn_implementation_internal": "nobody/kernel"}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(row))
    model, inputs = load_model(f"hf:{tmp_path}(sequence=8)")
    assert type(model).__name__ == "BertForTokenClassification"
    assert str(inputs) == "input_ids=8:int64<100, labels=8:int64<3"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hf:gtp2", "did you mean gpt2"),
        ("hf:GPT-2", "did you mean gpt2"),
        ("hf:google/bert", "ampere fetches nothing"),
        ("hf:vit(task='masked-lm')", "it has image-classification, features"),
        ("hf:gpt2(n_layers=3)", "has no setting 'n_layers': did you mean n_layer?"),
        ("hf:gpt2(n_layer='three')", "hf:gpt2 "),
        ("hf:gpt2(sequence=5000)", "takes 1024 tokens at most"),
        ("hf:timm_wrapper", "use timm:NAME"),
    ],
)
def test_bad_input_is_one_line(text: str, says: str) -> None:
    with pytest.raises(ModelError) as caught:
        load_model(text)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
