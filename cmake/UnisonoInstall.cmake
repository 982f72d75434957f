# What `cmake --install` installs, and the packages that cpack makes of it. Two components:
#   runtime      the program, its launcher, the manual page and completions, configs, the job script
#   development  libraries, headers, and what find_package(unisono) reads
include(CMakePackageConfigHelpers)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/unisono)
configure_package_config_file(cmake/unisono-config.cmake.in unisono-config.cmake
  INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(unisono-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/unisono-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/unisono-config-version.cmake
  DESTINATION ${package} COMPONENT development)
install(EXPORT unisono NAMESPACE unisono:: FILE unisono-targets.cmake DESTINATION ${package} COMPONENT development)

install(PROGRAMS scripts/launch DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME unisono-launch COMPONENT runtime)
install(DIRECTORY configs DESTINATION ${CMAKE_INSTALL_DATADIR}/unisono COMPONENT runtime)
install(PROGRAMS slurm/train.sbatch DESTINATION ${CMAKE_INSTALL_DATADIR}/unisono COMPONENT runtime)
install(FILES LICENSE packaging/debian/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)

# The program prints its own manual page and completions.
set(manual ${CMAKE_BINARY_DIR}/manual)
install(CODE "
  file(MAKE_DIRECTORY ${manual})
  foreach(what IN ITEMS man bash zsh fish)
    execute_process(COMMAND $<TARGET_FILE:unisono> manual \${what} OUTPUT_FILE ${manual}/\${what}
      COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  file(COPY ${CMAKE_SOURCE_DIR}/packaging/unisono-launch.1 ${CMAKE_SOURCE_DIR}/packaging/debian/changelog
    DESTINATION ${manual})
  execute_process(COMMAND gzip -9nf --keep ${manual}/man ${manual}/unisono-launch.1 ${manual}/changelog
    COMMAND_ERROR_IS_FATAL ANY)" COMPONENT runtime)
install(FILES ${manual}/man.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 RENAME unisono.1.gz COMPONENT runtime)
install(FILES ${manual}/unisono-launch.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)
install(FILES ${manual}/changelog.gz DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(FILES ${manual}/bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME unisono
  COMPONENT runtime)
install(FILES ${manual}/zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _unisono COMPONENT runtime)
install(FILES ${manual}/fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d RENAME unisono.fish
  COMPONENT runtime)

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL runtime)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGE_VENDOR unisono)
set(CPACK_PACKAGE_CONTACT "The authors of unisono <unisono@packages.invalid>" CACHE STRING "Maintainer of packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME unisono)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_DEPENDS openmpi-bin)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains models in parallel, and says what that did to the result")
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "One program for MPI ranks, which trains neural networks, linear models,
factorizations and word vectors from a config file, by the way of working
together that the config names, on a workstation or a cluster.")
include(CPack)
