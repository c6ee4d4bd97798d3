// An engine that trains nothing and spends time for each call: for tests of the protocol. ampere
// knows it by its version, and profiles no device by it (devices/adb.py).
#include <cmath>
#include <set>

#include "engine.hpp"

namespace {

const std::set<std::string> KNOWN = {"Conv2d", "Linear", "ReLU", "relu", "max_pool2d", "MaxPool2d",
                                     "flatten", "Flatten"};

struct Idling : Network {
  explicit Idling(size_t calls) : calls(calls) {}
  void step() override {
    for (size_t i = 0; i < calls * 20000; ++i) spent += std::sin(static_cast<double>(i));
  }
  size_t calls;
  volatile double spent = 0;
};

struct Stub : Engine {
  std::string version() const override { return "mnn stub"; }
  void apply(int) override {}
  std::unique_ptr<Network> load(const Json& network) override {
    const auto& calls = network.at("calls").list();
    for (size_t i = 0; i < calls.size(); ++i) {
      const std::string& op = calls[i].at("op").word();
      if (KNOWN.count(op.substr(op.rfind('.') + 1)) == 0)
        refuse(in_call(op, i), "the native worker does not know it");
    }
    return std::make_unique<Idling>(calls.size());
  }
};

}  // namespace

std::unique_ptr<Engine> make_engine() { return std::make_unique<Stub>(); }
