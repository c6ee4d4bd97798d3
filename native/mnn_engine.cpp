// MNN's engine: networks of convolutions, pools, batch normalisation and linear layers, by SGD.
//
// Written as examples/runner_mnn.py is, call by call; see there for what is known of MNN. Whatever a
// description has beyond that is refused, and so is a network whose weights do not all get a
// gradient.
#include <MNN/expr/Executor.hpp>
#include <MNN/expr/ExecutorScope.hpp>
#include <MNN/expr/ExprCreator.hpp>
#include <MNN/expr/Module.hpp>
#include <MNN/Interpreter.hpp>

#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "NN.hpp"
#include "OpGrad.hpp"
#include "ParameterOptimizer.hpp"
#include "engine.hpp"

namespace {

using namespace MNN::Express;

constexpr float RATE = 1e-3f;

VARP plain(VARP x) { return x->getInfo()->order == NCHW ? x : _Convert(x, NCHW); }

VARP blocked(VARP x) { return x->getInfo()->order == NC4HW4 ? x : _Convert(x, NC4HW4); }

int size_of(VARP x, int from) {
  int size = 1;
  for (size_t i = from; i < x->getInfo()->dim.size(); ++i) size *= x->getInfo()->dim[i];
  return size;
}

// A number for both sides, in MNN's order: x, y.
std::vector<int> sides(const Json& given, const std::string& name, int usual) {
  if (!given.has(name)) return {usual, usual};
  const Json& size = given.at(name);
  if (size.kind == Json::Number) return {size.whole(), size.whole()};
  return {size.list().at(1).whole(), size.list().at(0).whole()};
}

struct Held {
  VARP weight, bias;
  std::shared_ptr<Module> module;
};

class Classifier : public Network {
 public:
  explicit Classifier(const Json& network) : network_(network), root_(Module::createEmpty({})) {
    check();
    const Json& spec = network.at("inputs").list().at(0);
    input_ = drawn(spec.at("shape"), 1.0f);
    if (spec.has("grad") && spec.at("grad").flag) train(input_, "the network");
    for (const Json& call : network.at("calls").list()) held_.push_back(hold(call, held_.size()));
    root_->setIsTraining(true);
    VARP scores = forward();
    auto shape = scores->getInfo()->dim;
    if (shape.size() != 2 || shape[1] < 2) refuse("the network", "it is no classifier of rows");
    labels(shape[0], shape[1]);
    std::set<VARP> wanted;
    for (const auto& each : wanted_) wanted.insert(each.first);
    auto got = MNN::OpGrad::grad(loss(), wanted);
    for (const auto& each : wanted_)
      if (got.count(each.first) == 0) refuse(each.second, "a weight gets no gradient");
    optimizer_.reset(MNN::Train::ParameterOptimizer::createSGD(
        root_, RATE, 0.0f, 0.0f, MNN::Train::ParameterOptimizer::L2));
  }

  void step() override {
    if (!optimizer_->step(loss())) throw std::runtime_error("MNN could not compute a step");
  }

 private:
  void check() const {
    if (network_.at("optimizer").word() != "sgd") refuse("the network", "its optimizer is not sgd");
    if (!network_.has("loss")) refuse("the network", "it has no loss");
    const std::string& loss = network_.at("loss").word();
    if (loss != "auto" && loss != "cross_entropy") refuse("the network", "its loss is " + loss);
    const auto& inputs = network_.at("inputs").list();
    if (inputs.size() != 1 || inputs[0].at("dtype").word() != "float32")
      refuse("the network", "it is not fed one tensor of float32");
    if (network_.has("amp") || network_.has("dtype")) refuse("the network", "it is not float32");
  }

  VARP drawn(const Json& shape, float size) {
    std::vector<int> dim;
    for (const Json& each : shape.list()) dim.push_back(each.whole());
    return drawn(dim, size, true);
  }

  VARP drawn(const std::vector<int>& dim, float size, bool normal) {
    size_t count = 1;
    for (int each : dim) count *= each;
    std::vector<float> numbers(count);
    std::normal_distribution<float> bell(0.0f, size);
    std::uniform_real_distribution<float> even(-size, size);
    for (float& each : numbers) each = normal ? bell(random_) : even(random_);
    return _Const(numbers.data(), dim, NCHW);
  }

  void train(VARP& var, const std::string& where) {
    var.fix(VARP::TRAINABLE);
    root_->addParameter(var);
    wanted_[var] = where;
  }

  Held hold(const Json& call, size_t number) {
    static const std::set<std::string> known = {"op", "arguments", "inputs", "options"};
    const std::string& op = call.at("op").word();
    const std::string where = in_call(op, number);
    for (const auto& field : call.fields)
      if (known.count(field.first) == 0) refuse(where, field.first + " is set");
    const Json given = call.has("arguments") ? call.at("arguments") : Json(Fields{});
    if (op == "BatchNorm2d") return normalisation(given, where);
    std::vector<int> shape;
    if (op == "Linear")
      shape = {given.at("out_features").whole(), given.at("in_features").whole()};
    else if (op == "Conv2d")
      shape = kernel(given, where);
    else
      return {};
    float fan = 1.0f;
    for (size_t i = 1; i < shape.size(); ++i) fan *= static_cast<float>(shape[i]);
    Held held;
    held.weight = drawn(shape, 1.0f / std::sqrt(fan), false);
    train(held.weight, where);
    held.bias = _Const(0.0f, {shape[0]}, NCHW);  // a convolution must have one
    if (!given.has("bias") || given.at("bias").flag) train(held.bias, where);
    return held;
  }

  Held normalisation(const Json& given, const std::string& where) {
    for (const char* name : {"affine", "track_running_stats"})
      if (given.has(name) && !given.at(name).flag)
        refuse(where, "it has no scale, or keeps no statistics");
    float epsilon = given.has("eps") ? static_cast<float>(given.at("eps").real()) : 1e-5f;
    Held held;
    held.module.reset(NN::BatchNorm(given.at("num_features").whole(), 4, 0.9f, epsilon));
    root_->registerModel({held.module});
    auto parameters = held.module->parameters();
    for (size_t i = 0; i < 2; ++i) wanted_[parameters[i]] = where;  // scale and bias
    return held;
  }

  // The shape of a convolution's weight.
  static std::vector<int> kernel(const Json& given, const std::string& where) {
    int groups = given.has("groups") ? given.at("groups").whole() : 1;
    int leaving = given.at("out_channels").whole(), entering = given.at("in_channels").whole();
    if (groups != 1 && !(groups == leaving && leaving == entering))
      refuse(where, "its groups get wrong gradients");
    if (given.has("padding_mode") && given.at("padding_mode").word() != "zeros")
      refuse(where, "it does not pad with zeros");
    if (given.has("padding") && given.at("padding").kind == Json::Text)
      refuse(where, "its padding is a word");
    auto size = sides(given, "kernel_size", 1);
    return {leaving, entering / groups, size[1], size[0]};
  }

  void labels(int rows, int classes) {
    std::vector<float> ones(static_cast<size_t>(rows) * classes, 0.0f);
    std::uniform_int_distribution<int> choice(0, classes - 1);
    for (int row = 0; row < rows; ++row) ones[row * classes + choice(random_)] = 1.0f;
    labels_ = _Const(ones.data(), {rows, classes}, NCHW);
  }

  VARP loss() {
    VARP chosen = _ReduceSum(_Log(_Softmax(forward(), 1)) * labels_, {1});
    return _Negative(_ReduceMean(chosen, {}));
  }

  VARP forward() {
    std::vector<VARP> values{input_};
    const auto& calls = network_.at("calls").list();
    for (size_t i = 0; i < calls.size(); ++i) values.push_back(run(calls[i], held_[i], values));
    return plain(value(network_.at("result"), values, "the network"));
  }

  static VARP value(const Json& term, const std::vector<VARP>& values, const std::string& where) {
    if (term.kind != Json::Object || !term.has("value") || term.at("value").kind != Json::Number)
      refuse(where, "it takes " + term.dump());
    return values.at(term.at("value").whole());
  }

  static VARP run(const Json& call, const Held& held, const std::vector<VARP>& values) {
    const std::string& op = call.at("op").word();
    const std::string name = op.substr(op.rfind('.') + 1);
    const std::string where = in_call(op, values.size() - 1);  // the first is the input
    const auto& inputs = call.at("inputs").list();
    const Json given = call.has("arguments") ? call.at("arguments") : Json(Fields{});
    const Json options = call.has("options") ? call.at("options") : Json(Fields{});
    VARP x = value(inputs.at(0), values, where);
    if (name == "Linear") return _MatMul(plain(x), held.weight, false, true) + held.bias;
    if (name == "Conv2d") return convolved(given, held, x);
    if (name == "BatchNorm2d") return held.module->forward(x);
    if (name == "ReLU" || name == "relu" || name == "relu_") return _Relu(x);
    if (name == "MaxPool2d") return pooled(where, given, x);
    if (name == "max_pool2d") return pooled(where, as_named(inputs, options), x);
    if (name == "AdaptiveAvgPool2d" || name == "adaptive_avg_pool2d")
      return averaged(where, name[0] == 'A' ? given : as_sized(inputs, options), x);
    if (name == "flatten" || name == "Flatten") {
      if (name == "flatten" && !(inputs.size() == 2 && inputs[1].whole() == 1) &&
          !(options.has("start_dim") && options.at("start_dim").whole() == 1))
        refuse(where, "it does not keep the batch");
      return _Reshape(plain(x), {x->getInfo()->dim[0], size_of(x, 1)});
    }
    if (name == "add" || name == "__add__" || name == "__iadd__") {
      VARP y = value(inputs.at(1), values, where);
      return x->getInfo()->order == y->getInfo()->order ? x + y : plain(x) + plain(y);
    }
    refuse(where, "the native worker does not know it");
  }

  static VARP convolved(const Json& given, const Held& held, VARP x) {
    int groups = given.has("groups") ? given.at("groups").whole() : 1;
    return _Conv(held.weight, held.bias, blocked(x), CAFFE, sides(given, "stride", 1),
                 sides(given, "dilation", 1), groups, sides(given, "padding", 0));
  }

  // What a function is called with by position, as a module would have it by name.
  static Json as_named(const std::vector<Json>& inputs, const Json& options) {
    static const char* names[] = {"", "kernel_size", "stride", "padding", "dilation"};
    Json named = options;
    for (size_t i = 1; i < inputs.size() && i < 5; ++i) named.fields[names[i]] = inputs[i];
    return named;
  }

  static Json as_sized(const std::vector<Json>& inputs, const Json& options) {
    Json named = options;
    if (inputs.size() > 1) named.fields["output_size"] = inputs[1];
    return named;
  }

  static VARP pooled(const std::string& where, const Json& given, VARP x) {
    auto kernel = sides(given, "kernel_size", 1);
    auto stride = given.has("stride") ? sides(given, "stride", 1) : kernel;
    if (sides(given, "padding", 0) != std::vector<int>{0, 0} ||
        sides(given, "dilation", 1) != std::vector<int>{1, 1} ||
        (given.has("ceil_mode") && given.at("ceil_mode").flag))
      refuse(where, "its gradients are wrong where a pool is padded");
    return _MaxPool(blocked(x), kernel, stride, VALID);
  }

  static VARP averaged(const std::string& where, const Json& given, VARP x) {
    if (sides(given, "output_size", 0) != std::vector<int>{1, 1})
      refuse(where, "it does not pool all of a map");
    return _ReduceMean(plain(x), {2, 3}, true);
  }

  using Fields = std::map<std::string, Json>;
  const Json network_;
  std::shared_ptr<Module> root_;
  std::map<VARP, std::string> wanted_;  // and the call that holds each
  std::vector<Held> held_;
  VARP input_, labels_;
  std::unique_ptr<MNN::Train::ParameterOptimizer> optimizer_;
  std::mt19937 random_{0};
};

struct MnnEngine : Engine {
  std::string version() const override { return std::string("mnn ") + MNN::getVersion(); }
  void apply(int threads) override {
    MNN::BackendConfig config;
    auto executor = ExecutorScope::Current();
    executor->setGlobalExecutorConfig(MNN_FORWARD_CPU, config, threads);
    executor->lazyEval = true;  // without it an optimiser changes nothing
  }
  std::unique_ptr<Network> load(const Json& network) override {
    return std::make_unique<Classifier>(network);
  }
};

}  // namespace

std::unique_ptr<Engine> make_engine() { return std::make_unique<MnnEngine>(); }
