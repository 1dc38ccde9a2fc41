export const settings = {
  search: {
    // optional settings
  },
  chat: {
    // optional settings

    avatar: "https://v4.example.org/logo.png", // use your own
    questions: [
      "How do I begin?",
    ],
  },
};
