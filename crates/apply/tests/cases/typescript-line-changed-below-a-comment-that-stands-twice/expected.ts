export const settings = {
  search: {
    // optional settings
  },
  chat: {
    // optional settings

    avatar: "https://example.org/logo.png", // use your own
    questions: [
      "How do I begin?",
    ],
  },
};
