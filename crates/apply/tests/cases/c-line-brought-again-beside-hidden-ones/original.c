#if USE_FCNTL
#  ifdef WIN32
#    ifndef NOMINMAX
#      define NOMINMAX
#    endif
#    include <io.h>

#    ifndef S_IRUSR
#      define S_IRUSR _S_IREAD
#    endif
#    ifndef S_IWUSR
#      define S_IWUSR _S_IWRITE
#    endif
#  endif  // WIN32
#endif

int open_file(const char *path);
