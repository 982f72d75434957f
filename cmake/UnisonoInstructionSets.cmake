# unisono_instruction_sets(TARGET FOLDER)
#
# Compiles every FOLDER/*.cpp once per instruction set, with UNISONO_ISA defined as its name, and adds the objects to
# TARGET. The sources put all they define into namespace unisono::kernels::cpu::UNISONO_ISA; which copy runs is chosen
# by the CPU at run time. They must not use inline functions or templates of other headers: the linker keeps one copy of
# such a function for the whole program, and that could be one with instructions that the CPU lacks.
function(unisono_instruction_sets TARGET FOLDER)
  file(GLOB sources CONFIGURE_DEPENDS ${FOLDER}/*.cpp)
  # Sums are reordered only where a loop says so (omp simd, vectors): otherwise their order could depend on the address.
  # Infinities and NaNs keep their meaning, so that a diverged loss is seen.
  set(options -O3 -fopenmp-simd -fno-math-errno -fno-trapping-math -fno-signed-zeros -ffp-contract=fast)
  set(portable_options "")
  set(avx2_options -march=x86-64-v3 -mprfchw)
  set(avx512_options -march=x86-64-v4 -mprefer-vector-width=512 -mprfchw)
  set(instruction_sets portable)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    list(APPEND instruction_sets avx2 avx512)
    target_compile_definitions(${TARGET} PRIVATE UNISONO_X86)
  endif()
  foreach(instruction_set IN LISTS instruction_sets)
    set(objects ${TARGET}_${instruction_set})
    add_library(${objects} OBJECT ${sources})
    set_target_properties(${objects} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_definitions(${objects} PRIVATE UNISONO_ISA=${instruction_set})
    target_compile_options(${objects} PRIVATE ${options} ${${instruction_set}_options})
    target_include_directories(${objects} PRIVATE $<TARGET_PROPERTY:${TARGET},INCLUDE_DIRECTORIES>)
    target_link_libraries(${objects} PRIVATE unisono_options)
    target_sources(${TARGET} PRIVATE $<TARGET_OBJECTS:${objects}>)
  endforeach()
endfunction()
