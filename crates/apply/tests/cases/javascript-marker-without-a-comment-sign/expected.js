const a = 1;
const b = 20;
start(a, b);
stop(a);
