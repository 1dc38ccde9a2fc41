project(sample C)

add_library(core core.c)
target_compile_options(core PRIVATE -Wall)
target_include_directories(core PUBLIC include)

add_executable(app main.c)
target_link_libraries(app core)
