// Events (events.k8s.io/v1) for the people who look at an object: best effort, never waited for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/api/meta.h"
#include "src/base/executor.h"
#include "src/kube/client.h"

namespace cd::kube {

enum class EventType { kNormal, kWarning };

struct EventNote {
  api::ResourceType type = {};  // of the object
  api::ObjectRef object = {};
  EventType severity = EventType::kNormal;
  std::string reason = {};  // CamelCase, what `kubectl describe` shows first
  std::string action = {};  // CamelCase, what we did or tried
  std::string note = {};    // for people; cut at 1024 bytes, the server's limit
};

// Sends what is news: the same (object, reason, note) once in ten minutes, of one object not more than a handful in a row and one
// a minute after that. What cannot be sent is logged and forgotten.
class EventRecorder {
 public:
  // `controller`: e.g. "compute-domain-controller"; `instance`: e.g. the pod's or node's name.
  EventRecorder(ApiClient& client, const Clock& clock, std::string controller, std::string instance);
  ~EventRecorder();
  EventRecorder(const EventRecorder&) = delete;
  EventRecorder& operator=(const EventRecorder&) = delete;

  // Any thread; returns at once.
  void Record(EventNote event);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cd::kube
