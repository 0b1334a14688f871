"""Lambda functions: their environment.

AWS: a function sees its own variables and those of the runtime, nothing of a host. The emulator: a function inherits the environment
of the emulator, the root key among it.
"""

import os

from ministack.services import lambda_svc

RUNTIME = {
    "AWS_LAMBDA_RUNTIME_API", "AWS_DEFAULT_REGION", "AWS_REGION", "AWS_LAMBDA_FUNCTION_NAME", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE",
    "AWS_LAMBDA_FUNCTION_VERSION", "AWS_LAMBDA_LOG_STREAM_NAME", "LAMBDA_TASK_ROOT", "_HANDLER", "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL",
}

_worker_env = lambda_svc._provided_worker_env


def install():
    """Puts the supplement in place."""
    lambda_svc._provided_worker_env = worker_env


def worker_env(config, code_dir, port):
    """The emulator's environment of a function without what it took from its own."""
    own = set((config.get("Environment") or {}).get("Variables") or {})
    environment = {key: value for key, value in _worker_env(config, code_dir, port).items() if key in RUNTIME or key in own}
    return {
        "PATH": "/usr/local/bin:/usr/bin/:/bin:/opt/bin", "LANG": "en_US.UTF-8", "TZ": ":UTC", "LAMBDA_RUNTIME_DIR": "/var/runtime",
        "AWS_EXECUTION_ENV": f"AWS_Lambda_{config.get('Runtime', 'provided.al2023')}",
        "AWS_LAMBDA_LOG_GROUP_NAME": (config.get("LoggingConfig") or {}).get("LogGroup") or f"/aws/lambda/{config.get('FunctionName', '')}",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand", **environment,
        **faults(),
    }


def faults():
    """Where test builds of functions and runner look for what a test has armed (shared/faults), if a test has made the folder."""
    folder = os.environ["LOCAL_FAULTS"]
    return {"PLANGATE_TEST_FAULTS": folder} if os.path.isdir(folder) else {}
