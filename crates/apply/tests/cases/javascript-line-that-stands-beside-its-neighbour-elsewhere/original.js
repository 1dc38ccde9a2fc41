test(() => {
  issue({
    "code": "too_small",
    "inclusive": true,
    "message": "Too small: expected at least 2 items",
    "minimum": 2,
  });
  issue({
    "code": "too_small",
    "exact": true,
    "message": "Too small: expected 2 items",
    "minimum": 2,
  });
});
