// The ApiClient of a real cluster.
//
// Its executor is the event loop. At most a few calls are under way at a time, the others wait in order; watches have connections
// of their own. A call is tried again within its timeout (ten tries at most) when the server asks for it (Retry-After on 429 or
// 5xx), when nobody listened, or when the connection broke and the call is safe to repeat; a 401 is tried once more with a token
// read anew.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "src/base/event_loop.h"
#include "src/kube/client.h"
#include "src/kube/config.h"

namespace cd::kube {

class RestClient final : public ApiClient {
 public:
  // `user_agent`: "compute-domain-<component>/<version>". `seed` spreads retries.
  RestClient(EventLoop& loop, ClientConfig config, std::string user_agent, std::uint64_t seed);
  // On the loop's thread, outside of any callback, or while the loop does not run; all watches must be gone. Callbacks of
  // unfinished calls are destroyed unrun.
  ~RestClient() override;

  void Call(ApiRequest request, Callback done) override;
  std::unique_ptr<WatchStream> Watch(WatchRequest request, EventHandler on_event, EndHandler on_end) override;

 private:
  class Impl;
  EventLoop& loop_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace cd::kube
