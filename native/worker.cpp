// The worker for devices without Python: the same lines of JSON as ampere/devices/worker.py.
//
//   {"do": "open", "meter": null, "settings": {...}}   -> {"framework": ..., "threads": ..., ...}
//   {"do": "describe"}                                 -> {"identity": ..., "conditions": ...}
//   {"do": "load", "workload": {"network": ...}}       -> {"handle": 1}
//   {"do": "burst", "handle": 1, "steps": 20}          -> {"time_s": ..., "evidence": ...}
//   {"do": "unload", "handle": 1}                      -> {}
//   {"do": "watch", "time_s": 0.3}                     -> {"time_s": ...}
//   whatever goes wrong                                -> {"error": "ModelError", "message": ...}
//
// Joules are read on the other side (a phone's battery, by adb): it has no meter. It ends with its
// input.
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <iostream>
#include <new>
#include <thread>

#include "engine.hpp"

namespace {

using Fields = std::map<std::string, Json>;
using Clock = std::chrono::steady_clock;

constexpr double IDLE_STEP_S = 0.01;
constexpr int MOST_STEPS = 100000000;

void rest(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct Idle : Network {
  void step() override { rest(IDLE_STEP_S); }
};

std::string first_line(const std::string& path, const std::string& key = "") {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (key.empty()) return line;
    if (line.compare(0, key.size(), key) != 0) continue;
    size_t colon = line.find(':');
    size_t begin = line.find_first_not_of(" \t", colon == std::string::npos ? 0 : colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string or_unknown(const std::string& text) { return text.empty() ? "unknown" : text; }

class Worker {
 public:
  Worker() : engine_(make_engine()) {}

  Json answer(const Json& request) {
    const std::string& what = request.at("do").word();
    if (what == "open") return open(request);
    if (what == "describe") return describe();
    if (what == "load") return load(request.at("workload"));
    if (what == "burst") return burst(request.at("handle").whole(), request.at("steps").whole());
    if (what == "unload") return unload(request.at("handle").whole());
    if (what == "watch") return watch(request.at("time_s").real());
    throw Refusal("DeviceError", "a worker does not know how to " + what);
  }

 private:
  Json open(const Json& request) {
    if (request.has("meter"))
      throw Refusal("MeterError", "a native worker reads no meter: use one that is read from here");
    const Json& settings = request.at("settings");
    if (!settings.has("runtime") || settings.at("runtime").word() != "mnn")
      throw Refusal("DeviceError", "a native worker trains with mnn: use --runtime mnn");
    if (settings.has("accelerator") && settings.at("accelerator").word() != "cpu")
      throw Refusal("DeviceError", "mnn trains on the processor here: use --accelerator cpu");
    int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    int threads = settings.has("threads") ? settings.at("threads").whole() : cores;
    engine_->apply(threads);
    return Fields{{"framework", engine_->version()},
                  {"threads", threads},
                  {"freed_memory", "as the system does"}};
  }

  Json describe() const {
    utsname system{};
    uname(&system);
    std::string processor = first_line("/proc/cpuinfo", "Hardware");
    if (processor.empty()) processor = first_line("/proc/cpuinfo", "model name");
    std::string governor =
        first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    Fields identity{{"machine", or_unknown(system.machine)},
                    {"processor", or_unknown(processor)},
                    {"cores", std::to_string(std::thread::hardware_concurrency())},
                    {"memory", or_unknown(first_line("/proc/meminfo", "MemTotal"))},
                    {"system", or_unknown(system.sysname)},
                    {"power_mode", or_unknown(governor)}};
    return Fields{{"identity", identity},
                  {"conditions", Fields{{"host", or_unknown(system.nodename)}}}};
  }

  Json load(const Json& workload) {
    const std::string& stage = workload.at("stage").word();
    std::unique_ptr<Network> network;
    if (stage == "idle")
      network = std::make_unique<Idle>();
    else if (stage == "step" || stage == "reference")
      network = engine_->load(workload.at("network"));
    else
      throw Refusal("DeviceError", "the runtime mnn has no stage " + stage + ": it has step");
    int handle = networks_.empty() ? 1 : networks_.rbegin()->first + 1;
    networks_[handle] = std::move(network);
    return Fields{{"handle", handle}};
  }

  Json burst(int handle, int steps) {
    auto found = networks_.find(handle);
    if (found == networks_.end()) throw Refusal("MeasurementFailed", "there is no such handle");
    if (steps < 1 || steps > MOST_STEPS) throw Refusal("DataError", "a burst has 1 step or more");
    auto start = Clock::now();
    std::clock_t cpu = std::clock();
    for (int i = 0; i < steps; ++i) found->second->step();
    double time_s = since(start);
    double cpu_s = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
    int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    return Fields{{"time_s", time_s}, {"evidence", Fields{{"cpu_s", cpu_s}, {"cores", cores}}}};
  }

  Json unload(int handle) {
    networks_.erase(handle);
    return Fields{};
  }

  Json watch(double time_s) const {
    auto start = Clock::now();
    rest(std::min(std::max(time_s, 0.0), 60.0));
    return Fields{{"time_s", since(start)}};
  }

  std::unique_ptr<Engine> engine_;
  std::map<int, std::unique_ptr<Network>> networks_;
};

Json failure(const std::string& kind, const std::string& message) {
  return Fields{{"error", kind}, {"message", message.substr(0, 1000)}};
}

Json answered(Worker& worker, const Json& request) {
  try {
    return worker.answer(request);
  } catch (const Refusal& refusal) {
    return failure(refusal.kind, refusal.what());
  } catch (const std::bad_alloc&) {
    return failure("OutOfMemory", "out of memory");
  } catch (const std::exception& error) {
    return failure("MeasurementFailed", error.what());
  }
}

}  // namespace

int main() {
  // Whatever an engine prints must not end up between our answers.
  FILE* answers = fdopen(dup(1), "w");
  dup2(2, 1);
  Worker worker;
  for (std::string line; std::getline(std::cin, line);) {
    Json id, answer;
    try {
      Json request = Json::parse(line);
      if (request.has("id")) id = request.at("id");
      answer = answered(worker, request);
    } catch (const std::exception& error) {
      answer = failure("DeviceError", std::string("not a request: ") + error.what());
    }
    answer.fields["id"] = id;
    std::fprintf(answers, "%s\n", answer.dump().c_str());
    std::fflush(answers);
  }
  return 0;
}
