import pytest


def test_before(pm):
    assert pm.list() == []


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_hookspec(pm):
    class HookSpec:
        @hookspec()
        def he_myhook1(arg1):
            pass

        @hookspec(firstresult=True)
        def he_myhook2(arg1):
            pass

    pm.add_hookspecs(HookSpec)
