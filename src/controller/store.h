// The newest known version of each object of one type, from watches and from the answers to our own writes.
//
// Without the latter the next reconcile would decide from a copy older than its own last write, and be refused with a conflict.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "src/api/meta.h"
#include "src/api/resource_version.h"

namespace cd::controller {

enum class Source {
  kWatch,  // never older than what it said before of the same object
  kWrite,  // answer to a write: may come after the watch has said that the object was deleted
};

// Not thread-safe.
template <typename T>
class Store {
 public:
  using Ptr = std::shared_ptr<const T>;

  Ptr Get(const api::ObjectKey& key) const {
    const auto it = objects_.find(key);
    return it == objects_.end() ? nullptr : it->second;
  }
  const std::map<api::ObjectKey, Ptr>& objects() const { return objects_; }
  bool WasDeleted(const std::string& uid) const { return deleted_.contains(uid); }

  // False when a version at least as new is known already, or the object is known to be deleted.
  bool Put(const Ptr& object, Source source) {
    if (deleted_.contains(object->meta.uid)) {
      if (source == Source::kWrite) return false;
      // It only could not be decoded for a while.
      deleted_.erase(object->meta.uid);
    }
    Ptr& known = objects_[object->meta.Key()];
    if (known && known->meta.uid == object->meta.uid) {
      if (api::VersionOrder(object->meta.resource_version, known->meta.resource_version) <= 0) return false;
    }
    known = object;
    return true;
  }

  // Those that a complete list as of `version` should have had, and has not.
  std::vector<Ptr> Unlisted(const std::string& version, const std::map<api::ObjectKey, Ptr>& listed) const {
    std::vector<Ptr> out;
    for (const auto& [key, object] : objects_) {
      const auto it = listed.find(key);
      const bool there = it != listed.end() && it->second->meta.uid == object->meta.uid;
      if (!there && api::VersionOrder(object->meta.resource_version, version) <= 0) out.push_back(object);
    }
    return out;
  }

  // `object` was deleted; its successor of the same name, if known, stays.
  void Remove(const Ptr& object) {
    Bury(object->meta.uid);
    const auto it = objects_.find(object->meta.Key());
    if (it != objects_.end() && it->second->meta.uid == object->meta.uid) objects_.erase(it);
  }

 private:
  void Bury(const std::string& uid) {
    // An answer to a write of ours can be late by seconds, not by this many deletions.
    constexpr std::size_t kRemembered = 512;
    if (!deleted_.insert(uid).second) return;
    order_.push_back(uid);
    if (order_.size() <= kRemembered) return;
    deleted_.erase(order_.front());
    order_.pop_front();
  }

  std::map<api::ObjectKey, Ptr> objects_;
  std::set<std::string> deleted_;
  std::deque<std::string> order_;
};

}  // namespace cd::controller
