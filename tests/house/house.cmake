# SPDX-License-Identifier: MIT
# Tests of the house itself: walls, format, documents, installation. They look at the tree and at plain
# builds; sanitizer and cross builds do not repeat them.
find_package(Python3 COMPONENTS Interpreter)
if(WEFT_SANITIZE OR CMAKE_CROSSCOMPILING OR NOT Python3_FOUND)
  return()
endif()

function(weft_add_house_test name)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS house)
endfunction()

if(TARGET weft_engine)
  set(WEFT_ENGINE_OBJECTS --objects ${PROJECT_BINARY_DIR}/engine/CMakeFiles/weft_engine.dir=engine/)
endif()
if(TARGET weft_server)
  list(APPEND WEFT_ENGINE_OBJECTS --objects ${PROJECT_BINARY_DIR}/server/CMakeFiles/weft_server.dir=server/)
endif()
weft_add_house_test(walls ${Python3_EXECUTABLE} tools/walls/walls.py
                    --shared $<TARGET_FILE:weft_shared> --static $<TARGET_FILE:weft_static>
                    --objects ${PROJECT_BINARY_DIR}/CMakeFiles/weft_objects.dir ${WEFT_ENGINE_OBJECTS})
weft_add_house_test(walls_selftest ${Python3_EXECUTABLE} tools/walls/test_walls.py)
weft_add_house_test(format ${PROJECT_SOURCE_DIR}/scripts/format --check)
weft_add_house_test(install_consumers ${Python3_EXECUTABLE} tests/house/install_consumers.py
                    ${PROJECT_BINARY_DIR} ${PROJECT_BINARY_DIR}/consumers)
weft_add_house_test(readme_example ${Python3_EXECUTABLE} tests/house/readme_example.py README.md include
                    ${PROJECT_BINARY_DIR} ${PROJECT_BINARY_DIR}/readme)
weft_add_house_test(abi ${Python3_EXECUTABLE} tests/house/abi.py $<TARGET_FILE:weft_shared> include docs/abi/libweft.txt)
# Of -O2: what -O3 stores in five loops of linear_f32_avx512.c does not count beside what it gains (linear's NOTES.md).
if(WEFT_ISA AND CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64" AND
   NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  weft_add_house_test(spills ${Python3_EXECUTABLE} tests/house/spills.py
                      ${PROJECT_BINARY_DIR}/CMakeFiles/weft_objects.dir)
endif()
weft_add_house_test(toy ${Python3_EXECUTABLE} tests/house/toy.py . ${PROJECT_BINARY_DIR}/toy)
set_tests_properties(toy PROPERTIES COST 90)
# Faults that no longer fit the sources are planted by nobody.
weft_add_house_test(mutants_fit ${Python3_EXECUTABLE} tools/mutants/mutants.py --stale)
weft_add_house_test(docs_coverage ${Python3_EXECUTABLE} tests/house/docs_coverage.py)
weft_add_house_test(docs_models ${Python3_EXECUTABLE} tools/families_table.py --check)
weft_add_house_test(docs_accuracy ${Python3_EXECUTABLE} tools/accuracy_table.py --check)
weft_add_house_test(docs_benchmarks ${Python3_EXECUTABLE} tools/benchmark_table.py --check README.md docs/benchmarks.md)
if(TARGET weft_cli)
  weft_add_house_test(cli_contracts ${Python3_EXECUTABLE} tests/house/cli_contracts.py
                      $<TARGET_FILE:weft_cli> $<TARGET_FILE:weft-check>
                      ${PROJECT_BINARY_DIR}/contracts)
  # What unlike sequences cost in one batch, for a machine that nobody else uses: ctest -C long -R batches_cost
  add_test(NAME batches_cost CONFIGURATIONS long COMMAND ${Python3_EXECUTABLE} tests/house/batches_cost.py $<TARGET_FILE:weft_cli>
           WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  weft_add_house_test(check_problems ${Python3_EXECUTABLE} tests/house/check_problems.py $<TARGET_FILE:weft-check>)
endif()
