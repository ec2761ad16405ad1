// Bodies of the Informer template; include informer.h.
#pragma once

#include <set>
#include <utility>

#include "src/base/log.h"
#include "src/kube/informer.h"

namespace cd::kube {

template <typename T>
Informer<T>::Informer(ApiClient& client, Executor& executor, InformerOptions options, Decode decode, std::uint64_t seed)
    : options_(options),
      decode_(std::move(decode)),
      reflector_(client, executor, std::move(options),
                 {.replace = [this](const std::vector<const nlohmann::json*>& items,
                                    const std::string& version) { Replace(items, version); },
                  .change = [this](ChangeType type, const nlohmann::json& object) { Change(type, object); }},
                 seed) {}

template <typename T>
void Informer<T>::AddHandler(Handler handler) {
  handlers_.push_back(std::move(handler));
  const Handler& added = handlers_.back();
  const std::map<api::ObjectKey, Ptr> known = objects_;  // the handler may cause changes
  for (const auto& [key, object] : known) added(ChangeType::kAdded, object);
}

template <typename T>
void Informer<T>::OnSynced(std::function<void()> done) {
  if (synced_) return done();
  on_synced_.push_back(std::move(done));
}

template <typename T>
typename Informer<T>::Ptr Informer<T>::Get(const api::ObjectKey& key) const {
  auto it = objects_.find(key);
  return it == objects_.end() ? nullptr : it->second;
}

template <typename T>
void Informer<T>::Replace(const std::vector<const nlohmann::json*>& items, const std::string& version) {
  std::set<api::ObjectKey> listed;
  for (const nlohmann::json* item : items) {
    if (auto meta = api::DecodeMeta(*item)) listed.insert(meta->Key());
  }
  // Deletes first: who is told of an addition must not find what is gone beside it.
  std::vector<api::ObjectKey> gone;
  for (const auto& [key, object] : objects_) {
    if (!listed.contains(key)) gone.push_back(key);
  }
  for (const api::ObjectKey& key : gone) Erase(key);
  std::erase_if(undecodable_, [&](const auto& entry) { return !listed.contains(entry.first); });
  for (const nlohmann::json* item : items) Change(ChangeType::kModified, *item);
  if (!std::exchange(synced_, true)) {
    for (auto& done : std::exchange(on_synced_, {})) done();
  }
  if (on_listed_) on_listed_(version);
}

template <typename T>
void Informer<T>::Change(ChangeType type, const nlohmann::json& json) {
  auto meta = api::DecodeMeta(json);
  if (!meta) {
    LogError("object without usable metadata ignored", {{"resource", options_.type.plural}, {"error", meta.error().message}});
    return;
  }
  const api::ObjectKey key = meta->Key();
  if (type == ChangeType::kDeleted) {
    undecodable_.erase(key);
    return Erase(key);
  }
  auto object = decode_(json);
  if (object) {
    undecodable_.erase(key);
    return Put(std::make_shared<const T>(*std::move(object)));
  }
  if (std::exchange(undecodable_[key], meta->resource_version) != meta->resource_version) {
    LogError("object cannot be decoded and counts as absent",
             {{"resource", options_.type.plural}, {"namespace", key.ns}, {"name", key.name}, {"error", object.error().message}});
  }
  Erase(key);
}

template <typename T>
void Informer<T>::Put(Ptr object) {
  const api::ObjectKey key = object->meta.Key();
  const Ptr known = Get(key);
  if (known && known->meta.uid != object->meta.uid) {
    Erase(key);
  } else if (known && known->meta.resource_version == object->meta.resource_version) {
    return;  // relisted or replayed, nothing new
  }
  const bool added = objects_.insert_or_assign(key, object).second;
  Notify(added ? ChangeType::kAdded : ChangeType::kModified, object);
}

template <typename T>
void Informer<T>::Erase(const api::ObjectKey& key) {
  auto it = objects_.find(key);
  if (it == objects_.end()) return;
  const Ptr object = std::move(it->second);
  objects_.erase(it);
  Notify(ChangeType::kDeleted, object);
}

template <typename T>
void Informer<T>::Notify(ChangeType type, const Ptr& object) {
  // A handler added by a handler has already been told everything.
  const std::size_t count = handlers_.size();
  for (std::size_t i = 0; i < count; ++i) handlers_[i](type, object);
}

}  // namespace cd::kube
