#include <cstdio>
#include <vector>

void sequential(int N) {
  auto begin = now();
  for(int i=0; i<N; ++i) {
    printf("fib[%d]=%d\n", i, fib(i));
  }
  report(begin, now());
}

void parallel(int N) {
  auto range = numbers(N);
  auto begin = now();
  #pragma omp parallel for
  for(size_t i=0; i<N; ++i) {
    printf("fib[%d]=%d\n", range[i], fib(range[i]));
  }
  report(begin, now());
}
