# SPDX-License-Identifier: MIT
# Instruction sets by file suffix. The negative flags keep the compiler from straying into a level
# that the dispatcher has not asked the CPU for.
set(WEFT_ISA_avx2 -mavx2 -mfma -mf16c -mno-avx512f)
set(WEFT_ISA_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512cd
                    -mno-avx512vnni -mno-avx512vbmi)
set(WEFT_ISA_avx512vnni -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512cd
                        -mavx512vnni -mavx512vbmi -mgfni)
set(WEFT_ISA_avx512bf16 ${WEFT_ISA_avx512vnni} -mavx512bf16)
set(WEFT_ISA_amx ${WEFT_ISA_avx512bf16} -mamx-tile -mamx-bf16 -mamx-int8)
set(WEFT_ISA_neon "")
set(WEFT_ISA_neondot -march=armv8.2-a+dotprod)

# The levels themselves are listed in WEFT__ISA_MAP.
set(WEFT_ISA_MAP ${CMAKE_CURRENT_LIST_DIR}/../src/kernels/kernel.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${WEFT_ISA_MAP})
file(READ ${WEFT_ISA_MAP} levels)
string(REGEX MATCHALL "X\\([a-z0-9]+, (X86|ARM64)\\)" levels "${levels}")
foreach(level ${levels})
  string(REGEX MATCH "X\\(([a-z0-9]+), ([A-Z0-9]+)\\)" level "${level}")
  if(NOT DEFINED WEFT_ISA_${CMAKE_MATCH_1})
    message(FATAL_ERROR "weft: the level ${CMAKE_MATCH_1} of kernel.h has no flags in isa_flags.cmake")
  endif()
  list(APPEND WEFT_ISAS_${CMAKE_MATCH_2} ${CMAKE_MATCH_1})
endforeach()

option(WEFT_ISA "Kernels of the target's instruction sets; without them the reference kernels serve everything" ON)
if(NOT WEFT_ISA)
  add_compile_definitions(WEFT__REFERENCE_ONLY)
endif()

# Drops the sources of instruction sets that the target architecture does not have.
function(weft_isa_filter list)
  if(NOT WEFT_ISA)
    set(foreign ${WEFT_ISAS_X86} ${WEFT_ISAS_ARM64})
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    set(foreign ${WEFT_ISAS_ARM64})
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
    set(foreign ${WEFT_ISAS_X86})
  else()
    set(foreign ${WEFT_ISAS_X86} ${WEFT_ISAS_ARM64})
  endif()
  foreach(isa ${foreign})
    list(FILTER ${list} EXCLUDE REGEX "_${isa}\\.c$")
  endforeach()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()

# The unrolled kernels take minutes to compile when every intrinsic carries its checks and every variable its
# history: debug information stops at lines. Bounds are what weft-check cannot see without a sanitizer, so
# AddressSanitizer stays, by calls instead of inlined checks; for ThreadSanitizer (kernels are serial, the
# reference ones tell how tasks are split) they are compiled plainly, or are another build's (WEFT_ISA_FROM). Fuzzing does
# without them (WEFT_ISA). Shapes of attention that differ by a constant alone are compiled for one constant and for none
# (WEFT_FEW_SHAPES).
set(WEFT_ISA_COMPILE $<$<CONFIG:RelWithDebInfo>:-g1>)
if(WEFT_SANITIZE MATCHES "thread")
  list(APPEND WEFT_ISA_COMPILE -O1 -fno-sanitize=all)
elseif(WEFT_SANITIZE)
  list(APPEND WEFT_ISA_COMPILE -O1 -fno-sanitize=undefined -DWEFT_FEW_SHAPES)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    # Frames that AddressSanitizer keeps on a heap are aligned to 32 bytes, where vectors want 64.
    list(APPEND WEFT_ISA_COMPILE --param=asan-instrumentation-with-call-threshold=0 --param=asan-use-after-return=0 -fno-ivopts)
  endif()
endif()

# Gives every source the flags that its suffix asks for.
function(weft_isa_flags)
  foreach(source ${ARGN})
    if(source MATCHES "_([a-z0-9]+)\\.c$")
      # A condition of its own: if() expands all of its words before it matches.
      set(isa ${CMAKE_MATCH_1})
      if(DEFINED WEFT_ISA_${isa})
        set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${WEFT_ISA_${isa}};${WEFT_ISA_COMPILE}")
      endif()
    endif()
  endforeach()
endfunction()

set(WEFT_ISA_FROM "" CACHE PATH "Another build of this tree, whose objects of instruction sets are linked instead of compiled anew")

# Takes the sources of instruction sets out of a list; `objects` is then what WEFT_ISA_FROM makes of them, brought up
# to date by the target weft_isa_objects.
function(weft_isa_take list objects)
  set(${objects} "" PARENT_SCOPE)
  if(NOT WEFT_ISA_FROM)
    return()
  endif()
  list(JOIN WEFT_ISAS_X86 "|" isas)
  set(taken ${${list}})
  list(FILTER taken INCLUDE REGEX "_(${isas})\\.c$")
  list(REMOVE_ITEM ${list} ${taken})
  list(TRANSFORM taken REPLACE "^${PROJECT_SOURCE_DIR}/(.*)$" "CMakeFiles/weft_objects.dir/\\1.o" OUTPUT_VARIABLE names)
  list(TRANSFORM names PREPEND "${WEFT_ISA_FROM}/" OUTPUT_VARIABLE made)
  add_custom_target(weft_isa_objects COMMAND ${CMAKE_COMMAND} --build ${WEFT_ISA_FROM} --target ${names}
                                     BYPRODUCTS ${made} COMMENT "Kernels of ${WEFT_ISA_FROM}" VERBATIM)
  set_source_files_properties(${made} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(${list} ${${list}} PARENT_SCOPE)
  set(${objects} ${made} PARENT_SCOPE)
endfunction()
