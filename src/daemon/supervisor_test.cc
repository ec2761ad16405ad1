#include "src/daemon/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace cd::daemon {
namespace {

using fabric::Desired;
using fabric::DesiredDomain;
using fabric::DomainReport;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kOwn[] = "10.0.0.2";

// Actions as words, so that a case reads like a log: "start", "usr1", "hosts 10.0.0.1 10.0.0.2", "state READY" …
struct Word {
  std::string operator()(const WriteHosts& a) const {
    std::string text = "hosts";
    for (const std::string& address : a.addresses) text += " " + address;
    return text;
  }
  std::string operator()(const StartImex&) const { return "start"; }
  std::string operator()(const SignalImex& a) const {
    return a.signal == SIGUSR1 ? "usr1" : a.signal == SIGTERM ? "term" : a.signal == SIGKILL ? "kill" : "?";
  }
  std::string operator()(const AskImex& a) const { return a.question == Question::kState ? "ask state" : "ask report"; }
  std::string operator()(const PublishStatus& a) const { return "status " + a.status.state; }
  std::string operator()(const Note&) const { return "note"; }
  std::string operator()(const Exit&) const { return "exit"; }
};

class SupervisorTest : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  static Desired Wish(std::vector<fabric::DesiredHost> hosts = {}) {
    Desired desired;
    desired.run = true;
    desired.domain = DesiredDomain{"clique.1", "uid-1", 1, 3};
    desired.hosts = std::move(hosts);
    return desired;
  }
  Words Do(const Event& event) {
    Words words;
    for (const Action& action : supervisor_.Step(event, now_)) words.push_back(std::visit(Word{}, action));
    return words;
  }
  Words Answer(const char* word) { return Do(StateAnswered{std::string(word)}); }
  Words AnswerFailure() { return Do(StateAnswered{Fail(ErrorCode::kDeadlineExceeded, "no answer in 5 s")}); }
  Words Report(std::map<int, std::string> connections) {
    return Do(ReportAnswered{DomainReport{"580", std::move(connections), "DEGRADED"}});
  }
  Words After(int milliseconds) {
    now_ += Duration(milliseconds);
    return Do(Tick{});
  }
  // As Do, answering every question; returns the words but the questions and statuses.
  Words DoAndAnswer(const Event& event, const std::map<int, std::string>& connections) {
    Words seen;
    Words words = Do(event);
    while (!words.empty()) {
      Words next;
      for (const std::string& word : words) {
        if (word == "ask state") {
          ++states_asked_;
          next = Answer("READY");
        } else if (word == "ask report") {
          ++reports_asked_;
          next = Report(connections);
        } else if (!word.starts_with("status")) {
          seen.push_back(word);
        }
      }
      words = next;
    }
    return seen;
  }
  // Lets time pass, answering every question, until `milliseconds` are over.
  Words Live(int milliseconds, const std::map<int, std::string>& connections) {
    const SteadyTime end = now_ + Duration(milliseconds);
    Words seen;
    while (supervisor_.NextDeadline() && *supervisor_.NextDeadline() <= end) {
      now_ = std::max(now_, *supervisor_.NextDeadline());
      for (std::string& word : DoAndAnswer(Tick{}, connections)) seen.push_back(std::move(word));
    }
    now_ = end;
    return seen;
  }
  void RunUntilReady(const Desired& desired, const std::map<int, std::string>& connections = {}) {
    Do(DesiredRead{desired});
    Do(ImexStarted{"instance-1"});
    Live(5000, connections);
    ASSERT_EQ(supervisor_.status().state, "READY");
  }

  SteadyTime now_{Duration(1000000)};
  Supervisor supervisor_{kOwn};
  int states_asked_ = 0;
  int reports_asked_ = 0;
};

TEST_F(SupervisorTest, nothing_runs_without_a_wish) {
  EXPECT_THAT(Do(DesiredUnusable{"no desired.json yet"}), ElementsAre("status STOPPED"));
  EXPECT_EQ(supervisor_.status().error, "no desired.json yet");
  EXPECT_EQ(supervisor_.NextDeadline(), std::nullopt);
}

TEST_F(SupervisorTest, run_without_domain_does_not_start) {
  Desired desired = Wish();
  desired.domain.reset();
  EXPECT_THAT(Do(DesiredRead{desired}), ElementsAre("status STOPPED"));
}

TEST_F(SupervisorTest, domain_without_run_does_not_start) {
  Desired desired = Wish();
  desired.run = false;
  EXPECT_THAT(Do(DesiredRead{desired}), ElementsAre("status STOPPED"));
}

TEST_F(SupervisorTest, starts_asks_every_100_ms_and_reports_ready) {
  EXPECT_THAT(Do(DesiredRead{Wish()}), ElementsAre("start"));
  EXPECT_THAT(Do(ImexStarted{"instance-1"}), ElementsAre("status STARTING"));
  EXPECT_THAT(After(99), IsEmpty());
  EXPECT_THAT(After(1), ElementsAre("ask state"));
  EXPECT_THAT(Answer("INITIALIZING"), ElementsAre("status INITIALIZING"));
  EXPECT_THAT(After(100), ElementsAre("ask state"));
  EXPECT_THAT(Answer("READY"), ElementsAre("ask report", "status READY"));
  EXPECT_THAT(Report({}), ElementsAre("status READY"));  // the version is known now
  EXPECT_EQ(supervisor_.status().instance, "instance-1");
  EXPECT_EQ(supervisor_.status().imex_version, "580");
  EXPECT_EQ(supervisor_.status().domain_uid, "uid-1");
  EXPECT_EQ(supervisor_.status().domain, Wish().domain->name);
  EXPECT_EQ(supervisor_.status().index, 1);
  EXPECT_EQ(supervisor_.NextDeadline(), now_ + Duration(5000));
}

TEST_F(SupervisorTest, never_two_questions_at_once) {
  Do(DesiredRead{Wish()});
  Do(ImexStarted{"instance-1"});
  ASSERT_THAT(After(100), ElementsAre("ask state"));
  EXPECT_THAT(After(1000), IsEmpty());
  EXPECT_THAT(AnswerFailure(), ElementsAre("ask state"));
}

TEST_F(SupervisorTest, a_connected_domain_is_asked_for_nothing_but_its_state) {
  RunUntilReady(Wish({{0, "10.0.0.1"}, {1, kOwn}}), {{0, "CONNECTED"}});
  reports_asked_ = states_asked_ = 0;
  EXPECT_THAT(Live(60000, {{0, "CONNECTED"}}), IsEmpty());
  EXPECT_EQ(reports_asked_, 0);
  EXPECT_EQ(states_asked_, 12);
}

TEST_F(SupervisorTest, an_unconnected_member_is_looked_at_every_250_ms_for_a_minute_then_every_5_s) {
  RunUntilReady(Wish({{0, "10.0.0.1"}}), {{0, "NEVER_CONNECTED"}});
  reports_asked_ = 0;
  Live(50000, {{0, "NEVER_CONNECTED"}});
  EXPECT_NEAR(reports_asked_, 200, 2);
  Live(10000, {{0, "NEVER_CONNECTED"}});
  reports_asked_ = 0;
  Live(60000, {{0, "NEVER_CONNECTED"}});
  EXPECT_NEAR(reports_asked_, 12, 1);
}

TEST_F(SupervisorTest, a_lost_link_in_the_log_is_looked_at) {
  RunUntilReady(Wish({{0, "10.0.0.1"}}), {{0, "CONNECTED"}});
  EXPECT_THAT(Do(LinkChanged{}), ElementsAre("ask report"));
  EXPECT_THAT(Report({{0, "RECOVERING"}}), ElementsAre("status READY"));
  EXPECT_EQ(supervisor_.status().peers, (std::vector<fabric::PeerStatus>{{0, "RECOVERING"}}));
}

TEST_F(SupervisorTest, a_new_member_is_a_changed_address) {
  RunUntilReady(Wish());
  EXPECT_THAT(Do(DesiredRead{Wish({{0, "10.0.0.1"}})}), Contains("hosts 10.0.0.1 10.0.0.2 127.0.0.2"));
  EXPECT_EQ(supervisor_.status().peers, (std::vector<fabric::PeerStatus>{{0, "UNKNOWN"}}));
}

TEST_F(SupervisorTest, a_changed_address_is_written_and_signalled_without_restart) {
  RunUntilReady(Wish({{0, "10.0.0.1"}}), {{0, "CONNECTED"}});
  EXPECT_THAT(Do(DesiredRead{Wish({{0, "10.0.0.9"}})}),
              ElementsAre("hosts 10.0.0.9 10.0.0.2 127.0.0.2", "usr1", "ask report", "status READY"));
  Report({{0, "CONNECTED"}});
  EXPECT_THAT(Live(400000, {{0, "CONNECTED"}}), IsEmpty());
}

TEST_F(SupervisorTest, changes_within_5_s_become_one_signal_at_the_end) {
  const std::map<int, std::string> all = {{0, "CONNECTED"}, {2, "CONNECTED"}};
  RunUntilReady(Wish());
  EXPECT_THAT(DoAndAnswer(DesiredRead{Wish({{0, "10.0.0.1"}})}, all), Contains("usr1"));
  Live(1000, all);
  EXPECT_THAT(DoAndAnswer(DesiredRead{Wish({{0, "10.0.0.1"}, {2, "10.0.0.3"}})}, all),
              ElementsAre("hosts 10.0.0.1 10.0.0.2 10.0.0.3"));
  Live(1000, all);
  EXPECT_THAT(DoAndAnswer(DesiredRead{Wish({{0, "10.0.0.1"}, {2, "10.0.0.4"}})}, all),
              ElementsAre("hosts 10.0.0.1 10.0.0.2 10.0.0.4"));
  EXPECT_THAT(Live(3000, all), IsEmpty());
  EXPECT_THAT(Live(300, all), ElementsAre("usr1"));
  EXPECT_THAT(Live(60000, all), IsEmpty());
}

TEST_F(SupervisorTest, a_member_that_left_needs_no_signal) {
  RunUntilReady(Wish({{0, "10.0.0.1"}}), {{0, "CONNECTED"}});
  EXPECT_THAT(Do(DesiredRead{Wish()}), ElementsAre("hosts 127.0.0.2 10.0.0.2 127.0.0.2", "status READY"));
}

TEST_F(SupervisorTest, the_same_addresses_change_nothing) {
  RunUntilReady(Wish({{0, "10.0.0.1"}}), {{0, "CONNECTED"}});
  EXPECT_THAT(Do(DesiredRead{Wish({{0, "10.0.0.1"}, {1, kOwn}})}), IsEmpty());
}

TEST_F(SupervisorTest, the_signal_is_repeated_five_times_while_a_member_stays_unconnected) {
  RunUntilReady(Wish());
  Do(DesiredRead{Wish({{0, "10.0.0.1"}})});
  Report({});
  EXPECT_THAT(Live(3600000, {{0, "NEVER_CONNECTED"}}), ElementsAre("usr1", "usr1", "usr1", "usr1", "usr1"));
}

TEST_F(SupervisorTest, no_signal_before_nvidia_imex_answered_once) {
  Do(DesiredRead{Wish()});
  Do(ImexStarted{"instance-1"});
  EXPECT_THAT(Do(DesiredRead{Wish({{0, "10.0.0.1"}})}), Contains("hosts 10.0.0.1 10.0.0.2 127.0.0.2"));
  EXPECT_THAT(After(100), ElementsAre("ask state"));
  EXPECT_THAT(Answer("READY"), Contains("usr1"));
}

TEST_F(SupervisorTest, a_rebuilt_domain_restarts_nothing) {
  RunUntilReady(Wish());
  Desired rebuilt = Wish();
  rebuilt.domain->uid = "uid-2";
  EXPECT_THAT(Do(DesiredRead{rebuilt}), ElementsAre("status READY"));
  EXPECT_EQ(supervisor_.status().domain_uid, "uid-2");
}

TEST_F(SupervisorTest, another_domain_restarts) {
  RunUntilReady(Wish());
  Desired other = Wish();
  other.domain->name = "clique.2";
  other.domain->uid = "uid-2";
  EXPECT_THAT(Do(DesiredRead{other}), ElementsAre("term", "status STOPPING"));
  EXPECT_THAT(Do(ImexExited{"exited with status 0"}), ElementsAre("start"));
  EXPECT_THAT(Do(ImexStarted{"instance-2"}), ElementsAre("status STARTING"));
  EXPECT_EQ(supervisor_.status().domain_uid, "uid-2");
}

TEST_F(SupervisorTest, another_index_restarts) {
  RunUntilReady(Wish());
  Desired other = Wish();
  other.domain->index = 2;
  EXPECT_THAT(Do(DesiredRead{other}), Contains("term"));
}

TEST_F(SupervisorTest, a_changed_configuration_waits_until_the_node_is_idle) {
  RunUntilReady(Wish());
  Desired changed = Wish();
  changed.config.log_level = 3;
  EXPECT_THAT(Do(DesiredRead{changed}), ElementsAre("note"));
  changed.idle = true;
  EXPECT_THAT(Do(DesiredRead{changed}), Contains("term"));
}

TEST_F(SupervisorTest, idleness_alone_restarts_nothing) {
  RunUntilReady(Wish());
  Desired idle = Wish();
  idle.idle = true;
  EXPECT_THAT(Do(DesiredRead{idle}), IsEmpty());
}

TEST_F(SupervisorTest, an_unusable_wish_keeps_the_last_one_in_force) {
  RunUntilReady(Wish());
  EXPECT_THAT(Do(DesiredUnusable{"desired.json: not JSON"}), ElementsAre("status READY"));
  EXPECT_EQ(supervisor_.status().error, "desired.json: not JSON");
  EXPECT_THAT(Do(DesiredRead{Wish()}), ElementsAre("status READY"));
  EXPECT_EQ(supervisor_.status().error, "");
}

TEST_F(SupervisorTest, a_crash_is_followed_by_a_restart_with_growing_waits) {
  RunUntilReady(Wish());
  for (int wait : {200, 400, 800, 1600, 3200, 5000, 5000}) {
    SCOPED_TRACE(wait);
    EXPECT_THAT(Do(ImexExited{"was killed by signal 9"}), ElementsAre("status FAILED"));
    EXPECT_EQ(supervisor_.status().error, "nvidia-imex was killed by signal 9");
    EXPECT_THAT(After(wait - 1), IsEmpty());
    EXPECT_THAT(After(1), ElementsAre("start"));
    Do(ImexStarted{"again"});
  }
}

TEST_F(SupervisorTest, a_proven_nvidia_imex_is_restarted_at_once_again) {
  RunUntilReady(Wish());
  Do(ImexExited{"was killed by signal 9"});
  After(200);
  Do(ImexStarted{"again"});
  Live(40000, {});
  Do(ImexExited{"was killed by signal 9"});
  EXPECT_THAT(After(200), ElementsAre("start"));
}

TEST_F(SupervisorTest, a_program_that_cannot_be_started_is_tried_again) {
  Do(DesiredRead{Wish()});
  EXPECT_THAT(Do(ImexNotStarted{"/usr/bin/nvidia-imex: no such file"}), ElementsAre("status FAILED"));
  EXPECT_EQ(supervisor_.status().error, "/usr/bin/nvidia-imex: no such file");
  EXPECT_THAT(After(200), ElementsAre("start"));
}

TEST_F(SupervisorTest, an_answer_about_the_dead_nvidia_imex_is_not_believed_of_the_new_one) {
  RunUntilReady(Wish());
  now_ += Duration(5000);
  ASSERT_THAT(Do(Tick{}), ElementsAre("ask state"));
  Do(ImexExited{"was killed by signal 9"});
  After(200);
  Do(ImexStarted{"again"});
  EXPECT_THAT(Answer("READY"), Not(Contains("status READY")));
  EXPECT_EQ(supervisor_.status().state, "STARTING");
}

TEST_F(SupervisorTest, one_lost_answer_is_no_finding_two_are) {
  RunUntilReady(Wish());
  EXPECT_THAT(After(5000), ElementsAre("ask state"));
  EXPECT_THAT(AnswerFailure(), IsEmpty());
  EXPECT_THAT(After(100), ElementsAre("ask state"));
  EXPECT_THAT(AnswerFailure(), ElementsAre("status UNAVAILABLE"));
  EXPECT_EQ(supervisor_.status().error, "no answer in 5 s");
  EXPECT_THAT(After(100), ElementsAre("ask state"));
  EXPECT_THAT(Answer("READY"), ElementsAre("status READY"));
  EXPECT_EQ(supervisor_.status().error, "");
}

TEST_F(SupervisorTest, run_false_stops_and_frees_the_slot) {
  RunUntilReady(Wish());
  Desired stop = Wish();
  stop.run = false;
  EXPECT_THAT(Do(DesiredRead{stop}), ElementsAre("term", "status STOPPING"));
  EXPECT_THAT(Do(ImexExited{"exited with status 0"}), ElementsAre("status STOPPED"));
  EXPECT_EQ(supervisor_.status().domain_uid, "");
  EXPECT_EQ(supervisor_.status().domain, "");
  EXPECT_EQ(supervisor_.status().index, -1);
  EXPECT_EQ(supervisor_.status().instance, "");
}

TEST_F(SupervisorTest, one_that_does_not_stop_is_killed_after_the_grace) {
  RunUntilReady(Wish());
  ASSERT_THAT(Do(StopRequested{}), ElementsAre("term", "status STOPPING"));
  EXPECT_THAT(After(9999), IsEmpty());
  EXPECT_THAT(After(1), ElementsAre("kill"));
  EXPECT_THAT(After(60000), IsEmpty());
  EXPECT_THAT(Do(ImexExited{"was killed by signal 9"}), ElementsAre("status STOPPED", "exit"));
}

TEST_F(SupervisorTest, a_stop_without_nvidia_imex_ends_at_once) {
  Do(DesiredUnusable{"none"});
  EXPECT_THAT(Do(StopRequested{}), ElementsAre("exit"));
}

TEST_F(SupervisorTest, a_stop_while_starting_waits_for_the_start) {
  Do(DesiredRead{Wish()});
  EXPECT_THAT(Do(StopRequested{}), IsEmpty());
  EXPECT_THAT(Do(ImexStarted{"instance-1"}), ElementsAre("term", "status STOPPING"));
}

TEST_F(SupervisorTest, unwritable_hosts_are_reported_and_tried_again) {
  RunUntilReady(Wish());
  Do(DesiredRead{Wish({{0, "10.0.0.1"}})});
  EXPECT_THAT(Do(HostsNotWritten{"/etc/hosts: read-only"}), Contains("status READY"));
  EXPECT_EQ(supervisor_.status().error, "/etc/hosts: read-only");
  Report({});
  EXPECT_THAT(After(1000), Contains("hosts 10.0.0.1 10.0.0.2 127.0.0.2"));
  Do(HostsWritten{});
  EXPECT_EQ(supervisor_.status().error, "");
}

TEST_F(SupervisorTest, the_boot_id_is_handed_back) {
  Desired desired = Wish();
  desired.boot_id = "boot-7";
  RunUntilReady(desired);
  EXPECT_EQ(supervisor_.status().boot_id, "boot-7");
}

TEST_F(SupervisorTest, a_hanging_report_does_not_stop_the_state_questions) {
  RunUntilReady(Wish({{0, "10.0.0.1"}}), {{0, "CONNECTED"}});
  ASSERT_THAT(Do(LinkChanged{}), ElementsAre("ask report"));
  now_ += Duration(5000);
  EXPECT_THAT(Do(ReportAnswered{Fail(ErrorCode::kDeadlineExceeded, "no answer")}), ElementsAre("ask state"));
}

}  // namespace
}  // namespace cd::daemon
