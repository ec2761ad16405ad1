// The fields of a v1beta2 spec that v1beta1 does not have, as they are carried through it. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace cd::api {

// What a v1beta1 object with this channel means by saying nothing. `spec`: {channel?}
nlohmann::json FieldsOfV1Beta1(const nlohmann::json& spec);

// The object in `text`; nullopt: there is none.
std::optional<nlohmann::json> ParseFields(const std::string& text);

// What a v1beta1 object's annotation says. nullopt: nothing, or nothing that could be stored: an unknown field, a wrong value, or
// what the channel's allocationMode contradicts.
std::optional<nlohmann::json> ParseCarried(const std::string& text, const nlohmann::json& spec);

// `carried` over `fields`; null takes a field away. What gating leaves out has v1beta2's default.
void Apply(const nlohmann::json& carried, nlohmann::json& fields);

// The shortest text that Apply makes `fields` of `meant` with; "" where they are equal.
std::string DifferenceOf(const nlohmann::json& meant, const nlohmann::json& fields);

}  // namespace cd::api
