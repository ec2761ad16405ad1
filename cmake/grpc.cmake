# gRPC for the kubelet plugin: Debian's static archives (a dynamic link costs 7 MB more RSS), without TLS (unix sockets only) and with
# protobuf-lite.
find_package(PkgConfig REQUIRED)
find_program(CD_PROTOC protoc REQUIRED)
find_program(CD_GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

# cd_grpc: what `pkg-config --static` names, with every archive that exists as such, linked as one group because they refer to each other.
pkg_check_modules(CD_GRPC REQUIRED grpc++_unsecure)
set(cd_grpc_archives "")
set(cd_grpc_shared "")
set(cd_grpc_names ${CD_GRPC_STATIC_LIBRARIES} protobuf-lite address_sorting re2 upb cares z)
list(REMOVE_DUPLICATES cd_grpc_names)
foreach(lib ${cd_grpc_names})
  find_library(CD_ARCHIVE_${lib} NAMES lib${lib}.a)
  if(CD_ARCHIVE_${lib} AND NOT lib MATCHES "^(z|atomic|rt|dl|pthread|m)$")
    list(APPEND cd_grpc_archives ${CD_ARCHIVE_${lib}})
  else()
    list(APPEND cd_grpc_shared ${lib})
  endif()
endforeach()
add_library(cd_grpc INTERFACE)
target_link_libraries(cd_grpc INTERFACE -Wl,--start-group ${cd_grpc_archives} -Wl,--end-group ${cd_grpc_shared} pthread dl)

# cd_proto_library(name protos…): messages and services of all protos in one static library. Import paths start at the source root, so
# file names of other projects' protos cannot clash with ours in protobuf's registry.
function(cd_proto_library name)
  set(out ${CMAKE_BINARY_DIR}/proto)
  file(MAKE_DIRECTORY ${out})
  set(sources "")
  foreach(proto ${ARGN})
    file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${proto})
    string(REGEX REPLACE "\\.proto$" "" stem ${path})
    set(generated ${out}/${stem}.pb.cc ${out}/${stem}.pb.h ${out}/${stem}.grpc.pb.cc ${out}/${stem}.grpc.pb.h)
    add_custom_command(
      OUTPUT ${generated}
      COMMAND ${CD_PROTOC} -I ${CMAKE_SOURCE_DIR} --cpp_out=${out} --grpc_out=${out}
              --plugin=protoc-gen-grpc=${CD_GRPC_CPP_PLUGIN} ${CMAKE_SOURCE_DIR}/${path}
      DEPENDS ${CMAKE_SOURCE_DIR}/${path}
      VERBATIM)
    list(APPEND sources ${generated})
  endforeach()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} SYSTEM PUBLIC ${out})
  target_link_libraries(${name} PUBLIC cd_grpc)
  target_compile_options(${name} PRIVATE -w -ffunction-sections -fdata-sections)
endfunction()
