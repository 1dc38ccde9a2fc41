export const config = {
  host: "0.0.0.0",
  port: 8080,
  retries: 5,
  nested: {
    deep: true,
  },
};

export function start(options: Options) {
  const server = listen(config.port);
  server.on("error", (error) => {
    console.error(error);
  });
  server.unref();
  return server;
}

export function stop(server: Server) {
  server.close();
}
