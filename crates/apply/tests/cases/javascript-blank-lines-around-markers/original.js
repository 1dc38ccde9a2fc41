const express = require('express');

const app = express();

app.get('/', function (req, res) {
  res.send('hello');
});

app.get('/users', function (req, res) {
  for (const user of users) {
    res.write(user.name);
    res.write(user.mail);
  }
  res.end();
});

app.listen(3000);
