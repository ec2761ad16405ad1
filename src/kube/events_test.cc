#include "src/kube/events.h"

#include <gtest/gtest.h>

#include "src/base/manual_executor.h"
#include "src/kube/scripted_client.h"

namespace cd::kube {
namespace {

using nlohmann::json;

class Events : public testing::Test {
 protected:
  static EventNote Note(std::string name, std::string note) {
    return {.type = api::kComputeDomains,
            .object = {"ns", std::move(name), "uid-1"},
            .severity = EventType::kWarning,
            .reason = "Refused",
            .action = "Preparing",
            .note = std::move(note)};
  }
  ManualClock clock_;
  ScriptedClient client_;
  EventRecorder recorder_{client_, clock_, "compute-domain-controller", "pod-1"};
};

TEST_F(Events, event_has_what_the_server_requires) {
  recorder_.Record(Note("red", "because"));
  const ApiRequest request = client_.Answer(json::object());
  EXPECT_EQ(request.verb, Verb::kCreate);
  EXPECT_EQ(request.key.ns, "ns");
  const json body = json::parse(request.body);
  EXPECT_EQ(body["apiVersion"], "events.k8s.io/v1");
  EXPECT_EQ(body["type"], "Warning");
  EXPECT_EQ(body["eventTime"], "2027-01-15T08:00:00.000000Z");
  EXPECT_EQ(body["reportingController"], "compute-domain-controller");
  EXPECT_EQ(body["regarding"], json({{"apiVersion", "resource.nvidia.com/v1beta2"},
                                     {"kind", "ComputeDomain"},
                                     {"namespace", "ns"},
                                     {"name", "red"},
                                     {"uid", "uid-1"}}));
}

TEST_F(Events, event_of_a_cluster_scoped_object_goes_to_default) {
  EventNote note = Note("n1", "x");
  note.type = api::kNodes;
  note.object.ns = "";
  recorder_.Record(note);
  EXPECT_EQ(client_.requests.at(0).key.ns, "default");
}

TEST_F(Events, same_event_is_sent_once_in_ten_minutes) {
  for (int i = 0; i < 5; ++i) recorder_.Record(Note("red", "because"));
  EXPECT_EQ(client_.requests.size(), 1U);
  recorder_.Record(Note("blue", "because"));
  EXPECT_EQ(client_.requests.size(), 2U);
  clock_.Advance(std::chrono::minutes(10));
  recorder_.Record(Note("red", "because"));
  EXPECT_EQ(client_.requests.size(), 3U);
}

TEST_F(Events, one_object_cannot_flood) {
  for (int i = 0; i < 100; ++i) recorder_.Record(Note("red", std::to_string(i)));
  EXPECT_EQ(client_.requests.size(), 10U);
  recorder_.Record(Note("blue", "still heard"));
  EXPECT_EQ(client_.requests.size(), 11U);
  clock_.Advance(std::chrono::minutes(1));
  for (int i = 0; i < 100; ++i) recorder_.Record(Note("red", std::to_string(i)));
  EXPECT_EQ(client_.requests.size(), 12U);
}

TEST_F(Events, long_note_is_cut_between_characters) {
  recorder_.Record(Note("red", std::string(1023, 'a') + "ü tail"));
  EXPECT_EQ(json::parse(client_.requests.at(0).body)["note"], std::string(1023, 'a'));
}

TEST_F(Events, failed_delivery_is_only_logged) {
  recorder_.Record(Note("red", "because"));
  testing::internal::CaptureStderr();
  client_.Answer(Fail(ErrorCode::kForbidden, "no"));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("event not delivered"), std::string::npos);
  EXPECT_EQ(client_.requests.size(), 1U);
}

}  // namespace
}  // namespace cd::kube
