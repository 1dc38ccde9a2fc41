export const config = {
  host: "localhost",
  port: 8080,
  retries: 3,
  nested: {
    deep: true,
  },
};

export function start(options: Options) {
  const app = express();
  app.use(logger());
  return app.listen(options.port);
}

export function stop(server: Server) {
  server.close();
}
