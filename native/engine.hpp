// What trains networks in a native worker: one implementation is linked, MNN's or the stub.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "json.hpp"

// An error that ampere knows by the name of its class: ModelError, DeviceError, OutOfMemory.
struct Refusal : std::runtime_error {
  Refusal(std::string kind, const std::string& message)
      : std::runtime_error(message), kind(std::move(kind)) {}
  std::string kind;
};

[[noreturn]] inline void refuse(const std::string& what, const std::string& why) {
  throw Refusal("ModelError", "mnn cannot train " + what + ": " + why);
}

// How a refusal names a call of a network.
inline std::string in_call(const std::string& op, size_t number) {
  return op + " in call " + std::to_string(number);
}

// A network with its data, loss and optimiser.
struct Network {
  virtual ~Network() = default;
  virtual void step() = 0;  // one whole training step
};

struct Engine {
  virtual ~Engine() = default;
  virtual std::string version() const = 0;  // "mnn 3.6.0": what a fingerprint says
  virtual void apply(int threads) = 0;
  // A network as core/description.py writes it: flat calls, numbers filled in. Throws a Refusal
  // that names what cannot be trained.
  virtual std::unique_ptr<Network> load(const Json& network) = 0;
};

std::unique_ptr<Engine> make_engine();
