from .hooks import default_hooks
from .status_codes import codes

REDIRECT_STATI = (
    codes.moved,
    codes.found,
)
LIMIT = 30

def merge_setting(request_setting):
    return request_setting
