const routes = new Map();

function register(name, handler) {
  routes.set(name, handler);
}

function remove(name) {
  routes.delete(name);
}

function call(name, request) {
  const handler = routes.get(name);
  return handler(request);
}

module.exports = { register, remove, call };
