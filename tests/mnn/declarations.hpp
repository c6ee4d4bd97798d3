// What native/mnn_engine.cpp calls of MNN, after the symbols that the wheel of PyPI exports and its interface:
// the wheel has the engine with its training, but no headers. Sizes and places of fields are those
// of MNN 3.6; only what the engine touches is here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

enum MNNForwardType { MNN_FORWARD_CPU = 0 };

struct halide_type_t {
  uint32_t code = 2;  // float
  uint8_t bits = 32;
  uint16_t lanes = 1;
};

namespace MNN {
const char* getVersion();

struct BackendConfig {
  int memory = 0, power = 0, precision = 0;
  void* sharedContext = nullptr;
};

namespace Express {
using INTS = std::vector<int>;
enum Dimensionformat { NHWC, NC4HW4, NCHW };
enum PaddingMode { CAFFE, VALID, SAME };

struct Variable {
  struct Info {
    Dimensionformat order;
    INTS dim;
  };
  const Info* getInfo();
};

class VARP {
 public:
  enum InputType { INPUT = 0, CONSTANT = 1, TRAINABLE = 2 };
  VARP() = default;
  VARP(const VARP& other) : content_(other.content_) {}  // as MNN's: it is handed over by address
  VARP& operator=(const VARP&) = default;
  ~VARP() {}
  Variable* operator->() const { return content_.get(); }
  bool operator<(const VARP& other) const { return content_ < other.content_; }
  VARP operator+(VARP other) const;
  VARP operator*(VARP other) const;
  bool fix(InputType type) const;

 private:
  std::shared_ptr<Variable> content_;
};

struct Executor {
  bool lazyEval;
  void setGlobalExecutorConfig(MNNForwardType type, const BackendConfig& config, int threads);
};

struct ExecutorScope {
  static const std::shared_ptr<Executor> Current();
};

class Module {
 public:
  virtual ~Module() = default;
  virtual std::vector<VARP> onForward(const std::vector<VARP>& inputs) = 0;
  VARP forward(VARP input);
  std::vector<VARP> parameters() const;
  void setIsTraining(const bool training);
  int addParameter(VARP parameter);
  void registerModel(const std::vector<std::shared_ptr<Module>>& children);
  static Module* createEmpty(const std::vector<VARP>& parameters);
};

struct NN {
  static Module* BatchNorm(const int channels, const int dims, const float momentum, const float e);
};

VARP _Const(const void* numbers, INTS shape, Dimensionformat order, halide_type_t type = {});
VARP _Const(float number, INTS shape, Dimensionformat order);
VARP _Convert(VARP x, Dimensionformat order);
VARP _Conv(VARP weight, VARP bias, VARP x, PaddingMode mode, INTS stride, INTS dilate, int group,
           INTS pads);
VARP _Log(VARP x);
VARP _MatMul(VARP a, VARP b, bool transpose_a, bool transpose_b);
VARP _MaxPool(VARP x, INTS kernel, INTS stride, PaddingMode mode, INTS pads = {0, 0});
VARP _Negative(VARP x);
VARP _ReduceMean(VARP x, INTS axes, bool keep = false);
VARP _ReduceSum(VARP x, INTS axes, bool keep = false);
VARP _Relu(VARP x, float slope = 0.0f);
VARP _Reshape(VARP x, INTS shape, Dimensionformat order = NCHW);
VARP _Softmax(VARP x, int axis);
}  // namespace Express

struct OpGrad {
  static std::map<Express::VARP, Express::VARP> grad(Express::VARP loss,
                                                     const std::set<Express::VARP>& parameters,
                                                     const std::vector<std::string> blocked = {});
};

namespace Train {
class ParameterOptimizer {
 public:
  enum RegularizationMethod { L1, L2, L1L2 };
  virtual ~ParameterOptimizer() = default;
  bool step(Express::VARP loss);
  static ParameterOptimizer* createSGD(std::shared_ptr<Express::Module> module, float rate,
                                       float momentum, float decay, RegularizationMethod method);
};
}  // namespace Train
}  // namespace MNN
