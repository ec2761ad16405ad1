#include "tests/simulation/controller_process.h"

#include <utility>

#include "tests/simulation/controller_bugs.h"

namespace cd::simulation {

ControllerProcess::ControllerProcess(Context& context)
    : context_(context),
      name_("controller-" + std::to_string(context.next_instance++)),
      executor_(context.clock),
      client_(context.network, name_) {
  client_.blocking = true;
  client_.run = [this](const std::function<void()>& task) {
    task();
    idle_ = false;
  };
  PlantControllerBugs(context, client_);
  controller::ControllerOptions options;
  options.seed = context.dice.Next();
  options.ns = "driver";
  options.daemon_revision = std::to_string(context.daemon_revision);
  if (context.Has(Bug::kSlotAtOnce)) options.gone_after = Duration(0);
  controller_ = std::make_unique<controller::Controller>(client_, executor_, options);
  controller_->StartInformers();
}

ControllerProcess::~ControllerProcess() {
  fiber_.Kill();
  controller_.reset();
}

bool ControllerProcess::HasWork() const {
  return executor_.HasPosted() || executor_.HasDue() || (!fiber_.busy() && !idle_ && controller_->Synced());
}

void ControllerProcess::Step() {
  const bool task = executor_.HasPosted() || executor_.HasDue();
  const bool work = !fiber_.busy() && !idle_ && controller_->Synced();
  if (task && (!work || context_.dice.PerMille(500))) {
    executor_.HasPosted() ? executor_.TakePosted()() : executor_.TakeDue()();
    idle_ = false;
    return;
  }
  fiber_.Run([this] { idle_ = !controller_->WorkOnce(); });
}

}  // namespace cd::simulation
