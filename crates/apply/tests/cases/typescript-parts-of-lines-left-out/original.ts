export const config = {
  host: "localhost",
  port: 8080,
  retries: 3,
  nested: {
    deep: true,
  },
};

export function start(options: Options) {
  const server = listen(config.port);
  server.on("error", (error) => {
    console.error(error);
  });
  return server;
}

export function stop(server: Server) {
  server.close();
}
