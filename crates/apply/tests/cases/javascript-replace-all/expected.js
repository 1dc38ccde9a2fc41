const table = new Map();

function register(name, handler) {
  table.set(name, handler);
}

function remove(name) {
  table.delete(name);
}

function call(name, request) {
  const handler = table.get(name);
  return handler(request);
}

module.exports = { register, remove, call };
