// compute-domain-controller as a process: probes, leadership, and a stop that lets the next one begin at once.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <nlohmann/json.hpp>

#include "src/base/fd.h"
#include "src/base/files.h"
#include "tests/integration/cluster.h"

namespace cd::integration {
namespace {

using nlohmann::json;

// Killed when the test leaves it behind.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), CD_CONTROLLER_BINARY);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], nullptr, nullptr, argv.data(), environ), 0);
  }
  ~Process() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  void Terminate() { ::kill(pid_, SIGTERM); }
  // Exit code, or nullopt while it runs.
  std::optional<int> Exited() {
    int status = 0;
    if (pid_ <= 0 || ::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t pid_ = -1;
};

int FreePort() {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

// The answer's status line, empty while nobody listens.
std::string Probe(int port, const std::string& path) {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return "";
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: probe\r\n\r\n";
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "";
  std::string answer(512, '\0');
  const ssize_t got = ::recv(fd.get(), answer.data(), answer.size(), 0);
  answer.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return answer.substr(0, answer.find("\r\n"));
}

class ControllerProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    const kube::ClientConfig config = Cluster::Get().Config();
    const json kubeconfig = {
        {"apiVersion", "v1"},
        {"kind", "Config"},
        {"current-context", "test"},
        {"contexts", json::array({{{"name", "test"}, {"context", {{"cluster", "test"}, {"user", "test"}}}}})},
        {"clusters", json::array({{{"name", "test"},
                                   {"cluster", {{"server", config.server}, {"certificate-authority", config.tls.ca_file}}}}})},
        {"users", json::array({{{"name", "test"}, {"user", {{"token", config.token}}}}})}};
    path_ = Cluster::Get().directory() / UniqueName("kubeconfig");
    const Status written = ReplaceFile(path_, kubeconfig.dump());
    ASSERT_TRUE(written) << written.error().message;
    ns_ = MakeNamespace(connection_);
  }

  std::vector<std::string> Flags(const std::string& identity, int port) const {
    return {"--kubeconfig=" + path_.string(), "--namespace=" + ns_, "--identity=" + identity,
            "--health-port=" + std::to_string(port), "--lease-name=controller"};
  }
  std::string Holder() {
    const auto lease = connection_.Call(kube::Get(api::kLeases, {ns_, "controller"}));
    return lease ? lease->value("/spec/holderIdentity"_json_pointer, "") : "";
  }

  Connection connection_;
  std::filesystem::path path_;
  std::string ns_;
};

TEST_F(ControllerProcessTest, stop_hands_over_to_the_standby_at_once) {
  const int one_port = FreePort();
  Process one(Flags("one", one_port));
  ASSERT_TRUE(Eventually([&] { return Holder().starts_with("one_"); }));
  EXPECT_TRUE(Eventually([&] { return Probe(one_port, "/healthz") == "HTTP/1.1 200 OK"; }));
  const int two_port = FreePort();
  Process two(Flags("two", two_port));
  EXPECT_TRUE(Eventually([&] { return Probe(two_port, "/readyz") == "HTTP/1.1 200 OK"; }));
  EXPECT_TRUE(Holder().starts_with("one_"));
  one.Terminate();
  std::optional<int> code;
  ASSERT_TRUE(Eventually([&] { return (code = one.Exited()).has_value(); }, std::chrono::seconds(10)));
  EXPECT_EQ(code, 0);
  // A lease that is not given up would be waited for longer.
  EXPECT_TRUE(Eventually([&] { return Holder().starts_with("two_"); }, std::chrono::seconds(10)));
}

TEST_F(ControllerProcessTest, bad_flags_end_it_with_code_2) {
  for (const char* flag : {"--health-port=many", "--log-level=loud", "--kubeconfig=/does/not/exist"}) {
    Process process({flag, "--namespace=x", "--identity=y"});
    std::optional<int> code;
    ASSERT_TRUE(Eventually([&] { return (code = process.Exited()).has_value(); }, std::chrono::seconds(10))) << flag;
    EXPECT_EQ(code, 2) << flag;
  }
}

}  // namespace
}  // namespace cd::integration
