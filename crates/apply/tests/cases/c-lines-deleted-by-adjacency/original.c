#include <stdio.h>

int main(void)
{
    int total = 0;
    printf("begin\n");
    for (int i = 0; i < 10; i++)
        total += i;
    printf("debug %d\n", total);
    fflush(stdout);
    printf("end %d\n", total);
    return 0;
}
