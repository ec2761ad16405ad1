#include "src/fabric/daemon_files.h"

#include <gtest/gtest.h>

namespace cd::fabric {
namespace {

Desired Example() {
  Desired desired;
  desired.run = true;
  desired.idle = true;
  desired.boot_id = "5f7c1a52-0000-4000-8000-000000000001";
  desired.domain = DesiredDomain{"6a130f54-1111-4222-8333-444444444444.32766", "0b7c1a52-0000-4000-8000-000000000002", 3, 24};
  desired.hosts = {{0, "10.0.0.1"}, {3, "10.0.0.4"}, {7, "fd00::7"}};
  desired.tls = DesiredTls{"/imexd/desired/tls/key", "/imexd/desired/tls/cert", "/imexd/desired/tls/ca"};
  return desired;
}

TEST(Desired, survives_encoding) {
  const auto decoded = DecodeDesired(EncodeDesired(Example()));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, Example());
}

TEST(Desired, nothing_but_the_version_is_required) {
  const auto decoded = DecodeDesired(R"({"version":1})");
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, Desired{});
}

TEST(Desired, fields_of_a_newer_writer_are_ignored) {
  EXPECT_TRUE(DecodeDesired(R"({"version":1,"colour":"red","domain":{"name":"a","uid":"b","index":0,"slots":1,"shade":{}}})"));
}

TEST(Desired, refusals_name_the_field) {
  struct Case {
    const char* text;
    const char* field;
  };
  const Case cases[] = {
      {R"({})", "version"},
      {R"({"version":2})", "version"},
      {R"([])", "object"},
      {R"({"version":1,"run":"yes"})", "run"},
      {R"({"version":1,"domain":{"name":"a","uid":"b","index":0}})", "domain.slots"},
      {R"({"version":1,"domain":{"name":"a","uid":"b","slots":2}})", "domain.index"},
      {R"({"version":1,"domain":{"name":"a","uid":"b","index":2,"slots":2}})", "domain.index"},
      {R"({"version":1,"domain":{"name":"../a","uid":"b","index":0,"slots":2}})", "domain.name"},
      {R"({"version":1,"domain":{"name":"a","uid":"b\n","index":0,"slots":2}})", "domain.uid"},
      {R"({"version":1,"domain":{"name":"a","uid":"b","index":0,"slots":100000}})", "domain.slots"},
      {R"({"version":1,"domain":{"name":"a","uid":"b","index":0,"slots":2},"hosts":[{"index":2,"address":"10.0.0.1"}]})",
       "hosts[0].index"},
      {R"({"version":1,"hosts":[{"index":1,"address":"localhost"}]})", "hosts[0].address"},
      {R"({"version":1,"hosts":[{"index":1,"address":"10.0.0.1\nx"}]})", "hosts[0].address"},
      {R"({"version":1,"hosts":[{"index":1,"address":"10.0.0.1"},{"index":1,"address":"10.0.0.2"}]})", "hosts"},
      {R"({"version":1,"hosts":{}})", "hosts"},
      {R"({"version":1,"config":{"waitForQuorum":"none"}})", "config.waitForQuorum"},
      {R"({"version":1,"config":{"logLevel":5}})", "config.logLevel"},
      {R"({"version":1,"config":{"serverPort":18446744073709551615}})", "config.serverPort"},
      {R"({"version":1,"config":{"serverPort":50005}})", "config.commandPort"},
      {R"({"version":1,"tls":{"key":"/k","certificate":"c","authority":"/a"}})", "tls.certificate"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const auto decoded = DecodeDesired(c.text);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(decoded.error().message.starts_with(std::string(c.field) + ":")) << decoded.error().message;
  }
}

TEST(Desired, broken_or_huge_text_is_refused) {
  EXPECT_FALSE(DecodeDesired(""));
  EXPECT_FALSE(DecodeDesired(R"({"version":1)"));
  EXPECT_FALSE(DecodeDesired(std::string(100000, '[')));
  EXPECT_FALSE(DecodeDesired(R"({"version":1,"x":)" + std::string(1000, '[') + std::string(1000, ']') + "}"));
  EXPECT_FALSE(DecodeDesired(R"({"version":1,"x":")" + std::string(kMaxDaemonFile, 'x') + "\"}"));
}

TEST(DaemonStatus, survives_encoding) {
  DaemonStatus status{
      "6f1d",       "boot",    "clique.1",   "uid", 3, "10.0.0.4", kStateReady, {{0, "CONNECTED"}, {7, "NEVER_CONNECTED"}},
      "580.105.08", "pod-uid", "7530a4bd47", ""};
  const auto decoded = DecodeDaemonStatus(EncodeDaemonStatus(status));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, status);
}

TEST(DaemonStatus, foreign_bytes_of_an_error_do_not_make_the_file_unreadable) {
  DaemonStatus status;
  status.error = "line\n\x1b[31m\xff" + std::string(5000, 'x');
  status.imex_version = std::string(500, '\xff');
  const auto decoded = DecodeDaemonStatus(EncodeDaemonStatus(status));
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(decoded->error.starts_with("line  [31m"));
}

TEST(DaemonStatus, its_revision_reaches_the_report) {
  DaemonStatus status;
  status.revision = "7530a4bd47";
  status.pod_uid = "pod-uid";
  EXPECT_EQ(ToNodeDaemon(status).revision, "7530a4bd47");
  EXPECT_EQ(ToNodeDaemon(status).pod_uid, "pod-uid");
  EXPECT_FALSE(DecodeDaemonStatus(R"({"version":1,"revision":")" + std::string(64, 'x') + "\"}"))
      << "the API server would refuse it";
}

TEST(DaemonStatus, nothing_an_intruder_writes_passes_unchecked) {
  for (const char* text :
       {R"({"version":1,"state":"ready"})", R"({"version":1,"state":"READY","address":"evil"})",
        R"({"version":1,"state":"READY","index":-2})", R"({"version":1,"state":"READY","peers":[{"index":1}]})",
        R"({"version":1,"state":"READY","instance":"\u0000"})"}) {
    EXPECT_FALSE(DecodeDaemonStatus(text)) << text;
  }
}

TEST(ToNodeDaemon, reports_connected_peers_sorted) {
  DaemonStatus status;
  status.state = kStateReady;
  status.peers = {{9, "CONNECTED"}, {2, "INVALID"}, {1, "CONNECTED"}};
  const api::NodeDaemon daemon = ToNodeDaemon(status);
  EXPECT_EQ(daemon.state, api::DaemonState::kReady);
  EXPECT_EQ(daemon.connected, (std::vector<int>{1, 9}));
  status.state = kStateFailed;
  EXPECT_EQ(ToNodeDaemon(status).state, api::DaemonState::kNotReady);
}

TEST(ToNodeDaemon, says_why_it_is_not_ready_and_nothing_while_it_is) {
  DaemonStatus status;
  status.error = "nvidia-imex exited" + std::string(5000, '!');
  for (const char* state : {kStateFailed, kStateStarting}) {
    status.state = state;
    EXPECT_TRUE(ToNodeDaemon(status).message.starts_with("nvidia-imex exited")) << "a retry under way does not make it forgotten";
    EXPECT_LT(ToNodeDaemon(status).message.size(), 2048U) << "what the CRD admits";
  }
  status.state = kStateReady;
  EXPECT_EQ(ToNodeDaemon(status).message, "");
}

}  // namespace
}  // namespace cd::fabric
