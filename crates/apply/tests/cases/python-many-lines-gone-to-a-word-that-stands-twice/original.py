def test_reload(monkeypatch):
    # the setting is None
    result = {}

    # Mocks the server
    def run_mock(*args, **kwargs):
        result["errors"] = kwargs.get("errors")

    app = App(__name__)
    monkeypatch.setattr(serving, "run", run_mock)

    assert app.config["RELOAD"] is None
    assert app.auto_reload is False
    app.run(debug=True)
    assert app.auto_reload is True


def test_custom_environment():
    class CustomEnvironment(Environment):
        pass

    class CustomApp(App):
        environment = CustomEnvironment
