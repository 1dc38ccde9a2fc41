function first(list) {
  list.sort();
  list.reverse();
  return list;
}

function second(list) {
  list.sort();
  list.shift();
  list.reverse();
  return list;
}
