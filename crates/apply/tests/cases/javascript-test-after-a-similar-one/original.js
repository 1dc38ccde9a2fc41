module.exports = {
  'test explicit path': function(){
    var app = express.createServer();

    app.get('/', function(req, res){
      res.cookie('name', 'value', { path: '/' });
      res.redirect('/');
    });

    assert.response(app, { url: '/' }, function(res){
      res.headers['set-cookie'].should.eql(['name=value; path=/']);
    });
  },

  'test cleared': function(){
    var app = express.createServer();

    app.get('/', function(req, res){
      res.cookie('name', 'value', { path: '/x' });
      res.redirect('/');
    });

    assert.response(app, { url: '/' }, function(res){
      res.headers['set-cookie'].should.eql(['name=; path=/x']);
    });
  },

};
