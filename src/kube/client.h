// Calls to the Kubernetes API: one small request type, one virtual function, so that the real client, the decorators and the
// simulation's model server are interchangeable.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "src/api/meta.h"
#include "src/base/clock.h"
#include "src/base/result.h"

namespace cd::kube {

enum class Verb { kGet, kList, kCreate, kUpdate, kPatch, kDelete };
enum class PatchType { kMerge, kJson, kApply };

// One API call. Built by the functions below; fields that a verb does not use stay empty.
struct ApiRequest {
  Verb verb = Verb::kGet;
  api::ResourceType type = {};
  api::ObjectKey key = {};                        // kList, kCreate: name empty, ns empty = all namespaces (kList)
  std::string subresource = {};                   // "status" or empty
  std::map<std::string, std::string> query = {};  // labelSelector, fieldSelector, resourceVersion, limit, fieldManager …
  std::string body = {};                          // JSON
  PatchType patch_type = PatchType::kMerge;
  Duration timeout{10'000};  // for the whole call, retries and pages included
  // A second run of the same request changes nothing more, or fails with kConflict. Set by the builders.
  bool safe_to_repeat = false;
};

// Quorum read: no resourceVersion is sent.
ApiRequest Get(const api::ResourceType& type, api::ObjectKey key);
// Quorum list of everything that matches (pages are followed, `items` is complete).
ApiRequest List(const api::ResourceType& type, std::string ns = "", std::map<std::string, std::string> query = {});
ApiRequest Create(const api::ResourceType& type, std::string ns, const nlohmann::json& object);
// The object's metadata.resourceVersion is the precondition; an object without one is written unconditionally.
ApiRequest Update(const api::ResourceType& type, const nlohmann::json& object, std::string subresource = "");
ApiRequest MergePatch(const api::ResourceType& type, api::ObjectKey key, const nlohmann::json& patch,
                      std::string subresource = "");
ApiRequest JsonPatch(const api::ResourceType& type, api::ObjectKey key, const nlohmann::json& patch,
                     std::string subresource = "");
// Server-side apply of what `object` says, and of nothing else of the object it names, as `field_manager`. A field of another
// manager is kConflict.
ApiRequest Apply(const api::ResourceType& type, const nlohmann::json& object, std::string field_manager);
ApiRequest Delete(const api::ResourceType& type, api::ObjectKey key, std::string uid_precondition = "",
                  std::string rv_precondition = "");

// A running watch. Destroying it (on the loop's thread) ends it; no callback runs after that.
class WatchStream {
 public:
  virtual ~WatchStream() = default;
};

struct WatchRequest {
  api::ResourceType type = {};
  std::string ns = {};
  std::map<std::string, std::string> query = {};  // selectors, resourceVersion, timeoutSeconds, allowWatchBookmarks …
  Duration idle_timeout{0};                       // no byte for that long ends the stream with kDeadlineExceeded
};

class ApiClient {
 public:
  using Callback = std::function<void(Result<nlohmann::json>)>;
  // One event object `{"type":…,"object":…}` as raw JSON text.
  using EventHandler = std::function<void(std::string_view event)>;
  // Success: the server closed the stream normally.
  using EndHandler = std::function<void(Status)>;

  virtual ~ApiClient() = default;

  // Any thread; `done` runs once on the client's executor; when the client dies first it is destroyed unrun. Retries only what is
  // safe: answers with Retry-After, and lost connections on idempotent verbs (get, list, update and patch with a precondition,
  // delete with a precondition). metav1.Status answers become Error with code and message.
  virtual void Call(ApiRequest request, Callback done) = 0;
  // Client's executor only.
  virtual std::unique_ptr<WatchStream> Watch(WatchRequest request, EventHandler on_event, EndHandler on_end) = 0;
};

// For worker threads: blocks until the answer is there (kCancelled when the client dies first). Never call it on the client's
// executor: it would wait for itself for ever.
Result<nlohmann::json> CallAndWait(ApiClient& client, ApiRequest request);

}  // namespace cd::kube
