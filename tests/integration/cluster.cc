#include "tests/integration/cluster.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <nlohmann/json.hpp>
#include <random>

#include "src/base/files.h"

namespace cd::integration {

namespace fs = std::filesystem;

const api::ResourceType kConfigMaps{"", "v1", "ConfigMap", "configmaps", true};
const api::ResourceType kNamespaces{"", "v1", "Namespace", "namespaces", false};
const api::ResourceType kCrds{"apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false};

namespace {

constexpr char kToken[] = "integration-test";

[[noreturn]] void Give(const std::string& why) {
  fmt::print(stderr, "integration tests cannot run: {}\n", why);
  std::exit(2);
}

// Below the range the kernel hands out by itself: there a connection made meanwhile, even the API server's own to an etcd that
// does not listen yet, could take the port.
constexpr int kFirstPort = 20000;
constexpr int kLastPort = 32000;

int FreePort() {
  static std::mt19937 generator(std::random_device{}());
  for (int tries = 0; tries < 1000; ++tries) {
    const int port = std::uniform_int_distribution<int>(kFirstPort, kLastPort)(generator);
    const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return port;
  }
  Give("no free port on loopback");
}

void WriteServiceAccountKey(const fs::path& path) {
  EVP_PKEY* key = EVP_RSA_gen(2048);
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (key == nullptr || file == nullptr || PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    Give("cannot make the service account key");
  }
  std::fclose(file);
  EVP_PKEY_free(key);
}

std::size_t Append(char* bytes, std::size_t size, std::size_t count, void* out) {
  static_cast<std::string*>(out)->append(bytes, size * count);
  return size * count;
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments, const fs::path& log) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  Fd output(::open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(output.get(), STDOUT_FILENO);
  ::dup2(output.get(), STDERR_FILENO);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

ChildProcess::~ChildProcess() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool ChildProcess::Running() {
  if (pid_ > 0 && ::waitpid(pid_, nullptr, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

Cluster& Cluster::Get() {
  static Cluster cluster;
  return cluster;
}

Cluster::Cluster() : etcd_port_(FreePort()), etcd_peer_port_(FreePort()), api_port_(FreePort()) {
  const char* binaries = std::getenv("CD_KUBE_BIN");
  if (binaries == nullptr) Give("set CD_KUBE_BIN to the folder that holds kube-apiserver and etcd");
  binaries_ = binaries;
  for (const char* name : {"etcd", "kube-apiserver"}) {
    if (!fs::exists(binaries_ / name)) Give(fmt::format("CD_KUBE_BIN={} holds no {}", binaries, name));
  }
  std::string name = (fs::temp_directory_path() / "cd-integration.XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) Give("cannot make a temporary directory");
  directory_ = name;
  WriteServiceAccountKey(directory_ / "sa.key");
  if (!ReplaceFile(directory_ / "tokens.csv", fmt::format("{},tester,tester,system:masters\nnobody,nobody,nobody,\n", kToken))) {
    Give("cannot write the token file");
  }
  StartEtcd();
  StartApiServer();
}

Cluster::~Cluster() {
  api_server_.reset();
  etcd_.reset();
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

void Cluster::StartEtcd() {
  const std::string client = fmt::format("http://127.0.0.1:{}", etcd_port_);
  const std::string peer = fmt::format("http://127.0.0.1:{}", etcd_peer_port_);
  etcd_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{(binaries_ / "etcd").string(), "--data-dir=" + (directory_ / "etcd").string(),
                               "--listen-client-urls=" + client, "--advertise-client-urls=" + client,
                               "--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
                               "--initial-cluster=default=" + peer, "--unsafe-no-fsync"},
      directory_ / "etcd.log");
}

void Cluster::StartApiServer() {
  const std::string key = (directory_ / "sa.key").string();
  api_server_ = std::make_unique<ChildProcess>(
      std::vector<std::string>{
          (binaries_ / "kube-apiserver").string(), fmt::format("--etcd-servers=http://127.0.0.1:{}", etcd_port_),
          "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt::format("--secure-port={}", api_port_),
          "--cert-dir=" + (directory_ / "certs").string(), "--token-auth-file=" + (directory_ / "tokens.csv").string(),
          "--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + key,
          "--service-account-signing-key-file=" + key, "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC",
          "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none"},
      directory_ / "apiserver.log");
  const std::string url = fmt::format("https://127.0.0.1:{}/readyz", api_port_);
  const bool ready = Eventually([&] { return Fetch(url) == "ok" || !api_server_->Running(); }, std::chrono::seconds(120));
  if (ready && api_server_->Running()) return;
  std::string log = ReadSmallFile(directory_ / "apiserver.log", 64 << 20).value_or("");
  Give("kube-apiserver did not become ready; the end of its log:\n" +
       log.substr(log.size() - std::min<std::size_t>(log.size(), 3000)));
}

void Cluster::KillApiServer() {
  api_server_.reset();
}

void Cluster::CompactEtcd() {
  const std::string base = fmt::format("http://127.0.0.1:{}/v3", etcd_port_);
  const auto status = nlohmann::json::parse(Fetch(base + "/maintenance/status", "{}"), nullptr, false);
  const std::string revision = status.at("header").at("revision");
  ASSERT_FALSE(Fetch(base + "/kv/compaction", fmt::format(R"({{"revision":"{}","physical":true}})", revision)).empty());
}

std::string Cluster::Fetch(const std::string& url, const std::string& body) const {
  std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> easy(curl_easy_init(), &curl_easy_cleanup);
  std::string answer;
  curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(easy.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy.get(), CURLOPT_TIMEOUT_MS, 5000L);
  curl_easy_setopt(easy.get(), CURLOPT_SSL_VERIFYPEER, 0L);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEFUNCTION, &Append);
  curl_easy_setopt(easy.get(), CURLOPT_WRITEDATA, &answer);
  if (!body.empty()) curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, body.c_str());
  long status = 0;
  if (curl_easy_perform(easy.get()) != CURLE_OK) return "";
  curl_easy_getinfo(easy.get(), CURLINFO_RESPONSE_CODE, &status);
  return status == 200 ? answer : "";
}

kube::ClientConfig Cluster::Config() const {
  kube::ClientConfig config;
  config.server = fmt::format("https://127.0.0.1:{}", api_port_);
  // The server made its certificate itself and signed it with its own key.
  config.tls.ca_file = directory_ / "certs" / "apiserver.crt";
  config.token = kToken;
  return config;
}

Connection::Connection(kube::ClientConfig config)
    : client(std::make_unique<kube::RestClient>(loop, std::move(config), "compute-domain-test/0", 1)),
      thread_([this] { loop.Run(); }) {}

Connection::~Connection() {
  loop.Stop();
  thread_.join();
}

Result<nlohmann::json> Connection::Call(kube::ApiRequest request) {
  return kube::CallAndWait(*client, std::move(request));
}

void Connection::OnLoop(const Task& task) {
  std::promise<void> done;
  loop.Post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}

bool Eventually(const std::function<bool()>& condition, std::chrono::seconds limit) {
  const auto end = SystemClock().Now() + limit;
  while (!condition()) {
    if (SystemClock().Now() > end) return false;
    ::usleep(20'000);  // between two looks at the condition
  }
  return true;
}

std::string UniqueName(const std::string& prefix) {
  static std::atomic<int> next = 1;
  return fmt::format("{}-{}", prefix, next++);
}

std::string MakeNamespace(Connection& connection) {
  const std::string name = UniqueName("test");
  const auto made = connection.Call(kube::Create(kNamespaces, "", {{"metadata", {{"name", name}}}}));
  EXPECT_TRUE(made) << made.error().message;
  return name;
}

Status ApplyFile(Connection& connection, const api::ResourceType& type, const std::string& name, const fs::path& file) {
  const auto yaml = ReadSmallFile(file);
  if (!yaml) return Fail(yaml.error());
  kube::ApiRequest apply{.verb = kube::Verb::kPatch, .type = type, .key = {"", name}};
  apply.patch_type = kube::PatchType::kApply;
  apply.query = {{"fieldManager", "test"}, {"force", "true"}};
  apply.body = *yaml;
  const auto applied = connection.Call(apply);
  return applied ? Status() : Fail(applied.error());
}

}  // namespace cd::integration
