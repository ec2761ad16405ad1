// The life of the daemon in the words of nvidia-imex-ctl -q.
#pragma once

namespace emu::imex {

enum class DaemonState { kInitializing, kWaitingForPeers, kWaitingForRecovery, kInitGpu, kReady, kShuttingDown };

constexpr const char* Word(DaemonState state) {
  switch (state) {
    case DaemonState::kInitializing:
      return "INITIALIZING";
    case DaemonState::kWaitingForPeers:
      return "WAITING_FOR_PEERS";
    case DaemonState::kWaitingForRecovery:
      return "WAITING_FOR_RECOVERY";
    case DaemonState::kInitGpu:
      return "INIT_GPU";
    case DaemonState::kReady:
      return "READY";
    case DaemonState::kShuttingDown:
      return "SHUTTING_DOWN";
  }
  return "";
}

}  // namespace emu::imex
