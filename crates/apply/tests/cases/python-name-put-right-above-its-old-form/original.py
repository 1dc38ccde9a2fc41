class TestUndefined(TestCase):
    def test_indexing(self):
        template = Template("{{ var[42].foo }}")
        assert_raises(UndefinedError, template.render, var=0)

    def test_none_gives_propert_error(self):
        try:
            Undefined(None).split()
        except UndefinedError as error:
            assert error.message == "None is not defined"
        else:
            assert False, "expected exception"


def suite():
    return TestUndefined
