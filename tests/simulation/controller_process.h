// One life of a controller: the real Controller, its informers on a simulated executor, its worker on a fiber that waits in the
// middle of every API call.
#pragma once

#include <memory>
#include <string>

#include "src/controller/controller.h"
#include "tests/simulation/context.h"
#include "tests/simulation/fiber.h"

namespace cd::simulation {

class ControllerProcess {
 public:
  explicit ControllerProcess(Context& context);
  ~ControllerProcess();

  bool HasWork() const;
  void Step();
  std::optional<SteadyTime> NextTimer() const { return executor_.NextTimer(); }
  // Time went on: keys may be due.
  void TimePassed() { idle_ = false; }
  const std::string& name() const { return name_; }
  bool Synced() const { return controller_->Synced(); }
  // Its worker waits for an answer.
  bool waiting() const { return fiber_.busy(); }

 private:
  Context& context_;
  const std::string name_;
  SimulatedExecutor executor_;
  Client client_;
  Fiber fiber_;
  bool idle_ = true;  // nothing was due when the worker looked last
  std::unique_ptr<controller::Controller> controller_;
};

}  // namespace cd::simulation
