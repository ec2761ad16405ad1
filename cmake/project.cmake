# Rules shared by every room: warnings, sanitizers, one way to declare a library and its tests.
include(GoogleTest)
add_library(cd_options INTERFACE)
target_include_directories(cd_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(cd_options INTERFACE -Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlapping copies in `"literal" + std::string` when it optimises (GCC bug 105651).
  target_compile_options(cd_options INTERFACE -Wno-restrict)
endif()
if(CD_SANITIZE)
  target_compile_options(cd_options INTERFACE -fsanitize=${CD_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(cd_options INTERFACE -fsanitize=${CD_SANITIZE})
  if(CD_SANITIZE MATCHES "thread")
    # Debian's protobuf is built without TSan; with this macro set its Map has another layout than ours.
    target_compile_options(cd_options INTERFACE -U__SANITIZE_THREAD__)
  endif()
endif()
if(CD_FUZZ)
  target_compile_options(cd_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
# Sections are dropped at link time: the daemon's memory budget is 8 MB.
target_compile_options(cd_options INTERFACE -ffunction-sections -fdata-sections)
target_link_options(cd_options INTERFACE -Wl,--gc-sections)

# cd_library(name SOURCES … DEPS …): a static library of one room.
function(cd_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC cd_options ${ARG_DEPS})
endfunction()

# cd_test(name [WHOLE] SOURCES … DEPS …): one GoogleTest executable; ctest runs and counts each case, or with WHOLE the executable, for
# cases that share something dear such as an API server.
function(cd_test name)
  if(NOT CD_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "WHOLE" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE cd_options ${ARG_DEPS} gtest gmock gtest_main pthread)
  # The code under test is optimised as shipped; optimising the tests themselves would only double the time they take to compile.
  target_compile_options(${name} PRIVATE -O0)
  if(ARG_WHOLE)
    add_test(NAME ${name} COMMAND ${name})
  else()
    gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 120)
  endif()
endfunction()

# cd_executable(name SOURCES … DEPS …): a program of the image; the C++ runtime is linked in.
function(cd_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE cd_options ${ARG_DEPS})
  if(NOT CD_SANITIZE)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()
