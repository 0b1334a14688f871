"""What is proposed and cannot be planned, or not be shown, or not be applied as it was planned: each fails with its own reason."""

import dataclasses
import json
import re
import subprocess
import tarfile

import pytest
from mischief import (
    archive, configure_provider, digest_of, entry, forge_receipt, nothing_applied, own_mirror, propose, propose_archive,
    provider_configuration, provider_lock, swap_provider, task_held, upload)

from local import deploy

PLAIN = 'terraform {\n  required_version = ">= 1.9"\n}\nresource "terraform_data" "one" {\n  input = 1\n}\n'
THING = 'resource "sample_thing" "one" {\n  name = "one"\n  size = 1\n}\n'


def fails(run, reason):
    """Asserts that a run fails for this reason, and that nobody was asked about it; gives its failure's detail."""
    run.ended_well("failed", reason)
    assert not {"plan-projected", "approval-requested"} & set(run.happened())
    return run.record["failure"]["detail"]


# -- the engine ----------------------------------------------------------------------------------------------------


def test_an_engine_of_another_version_than_the_pinned_one_plans_nothing(world, workspace):
    shop = workspace(spec={"engine": {"name": world.gate.engine.name, "version": "1.9.0"}})
    detail = fails(shop.propose(), "engine-version-mismatch")
    assert "1.9.0" in detail


def test_an_engine_whose_binary_is_not_the_runners_own_plans_nothing(world, workspace):
    other = dataclasses.replace(world.gate.engine, sha256="0" * 64)
    with world.runner(engines=[other]):
        fails(workspace().propose(), "engine-version-mismatch")


def test_an_engine_that_calls_itself_another_version_plans_nothing(world, workspace):
    """The runner's image says 1.9.0 of what is another version."""
    shop = workspace(spec={"engine": {"name": world.gate.engine.name, "version": "1.9.0"}})
    with world.runner(engines=[dataclasses.replace(world.gate.engine, version="1.9.0")]):
        detail = fails(shop.propose(), "engine-version-mismatch")
    assert world.gate.engine.version in detail


def test_an_engine_that_was_replaced_between_plan_and_apply_applies_nothing(world, workspace):
    shop = workspace()
    run = shop.waiting()
    with world.runner(engines=[dataclasses.replace(world.gate.engine, sha256="0" * 64)]):
        run.approve()
        run.ended_well("failed", "engine-version-mismatch")
    nothing_applied(run)
    assert shop.state() is None


# -- providers and their lock --------------------------------------------------------------------------------------


@pytest.fixture
def provider(world, mirror):
    """The folder of a mirror with the test provider, which this test may change."""
    return own_mirror(world, mirror)


def test_a_computed_secret_is_masked_and_a_replacement_shown_as_one(world, workspace, provider):
    shop = workspace()
    configure_provider(shop, provider, THING)
    with world.runner(provider_mirror=provider):
        first = shop.waiting()
        assert resource(first)["actions"] == ["create"]
        first.approve()
        first.ended_well("applied")
        token = json.loads(shop.state()[0])["resources"][0]["instances"][0]["attributes"]["token"]
        world._planted[token] = shop  # the provider's own secret: it may be where the workspace's may
        shop.edit('"one"\n  size', '"another"\n  size')
        second = shop.waiting()
        assert sorted(resource(second)["actions"]) == ["create", "delete"]
        assert second.record["projection"]["counts"] == {"create": 0, "update": 0, "delete": 0, "replace": 1}
        shown = as_people_see_it(second)
        assert re.search(r"-/\+.*sample_thing\.one", shown), shown
        assert re.search(r"token.*sensitive", shown) and token not in shown, shown
        assert '"one"' in shown and '"another"' in shown, shown
        second.approve()
        second.ended_well("applied")
    assert second.record["plan"]["lock_file"] == digest_of((shop.folder / ".terraform.lock.hcl").read_bytes())


def resource(run):
    """What the projection says of the one resource."""
    found, = [each for each in run.projection()["resources"] if each["address"] == "sample_thing.one"]
    return found


def as_people_see_it(run):
    """`plangate show` without `--json`."""
    person = run.world.person("bob")
    shown = subprocess.run(
        [deploy.binary("plangate", "dev"), "show", run.id], env=person._environment, capture_output=True, text=True, check=True, timeout=60).stdout
    run.world.heard("bob$ plangate show", shown)
    return shown


def test_a_provider_without_a_dependency_lock_is_refused_where_it_is_proposed(workspace, provider):
    shop = workspace()
    configure_provider(shop, provider, THING)
    (shop.folder / ".terraform.lock.hcl").unlink()
    assert shop.propose(expect=3).reason == "lock-file-missing"


def test_a_lock_entry_without_a_hash_of_the_package_is_refused_where_it_is_proposed(workspace, provider):
    shop = workspace()
    configure_provider(shop, provider, THING, lock=provider_lock(provider).replace("h1:", "zh:"))
    assert shop.propose(expect=3).reason == "lock-file-without-h1"


@pytest.mark.parametrize("lock", ["none", "no entry", "no hash", "another hash", "another version"])
def test_a_dependency_lock_that_does_not_hold_the_provider_fails_the_plan(world, workspace, provider, lock):
    shop, good = workspace(), provider_lock(provider)
    files = {"main.tf": provider_configuration(THING), ".terraform.lock.hcl": {
        "none": None, "no entry": "# nothing\n", "no hash": good.replace('"h1:', '"zh:'),
        "another hash": re.sub(r'h1:.', "h1:0", good), "another version": good.replace("0.1.0", "0.2.0")}[lock]}
    if files[".terraform.lock.hcl"] is None:
        del files[".terraform.lock.hcl"]
    with world.runner(provider_mirror=provider):
        fails(propose_archive(shop, archive(files), "applicable"), "lock-file-invalid")


def test_a_provider_swapped_under_its_lock_entry_is_not_started(world, workspace, provider):
    shop = workspace()
    configure_provider(shop, provider, THING)
    swap_provider(provider)
    with world.runner(provider_mirror=provider):
        fails(shop.propose(), "lock-file-invalid")


def test_a_provider_swapped_between_plan_and_apply_is_not_started(world, workspace, provider):
    shop = workspace()
    configure_provider(shop, provider, THING)
    with world.runner(provider_mirror=provider):
        run = shop.waiting()
        swap_provider(provider)
        run.approve()
        run.ended_well("failed", "lock-file-invalid")
    nothing_applied(run)
    assert shop.state() is None


def test_a_plan_that_claims_to_be_of_another_dependency_lock_is_not_applied(world, workspace):
    shop = workspace()
    with task_held(world, "plan", after=True) as post:
        run = shop.propose()
        post.reached()
        forge_receipt(run, "plan", lambda receipt: receipt["planned"].update(lock_file=digest_of(b"another lock")))
        post.open()
        run.wait("awaiting_approval").approve()
        run.ended_well("failed", "lock-file-invalid")
    nothing_applied(run)
    assert shop.state() is None


# -- plans that err ------------------------------------------------------------------------------------------------


def test_a_plan_that_errors_can_be_read_about_and_tells_no_secret(workspace):
    shop = workspace()
    shop.configure(f"""{(shop.folder / "main.tf").read_text()}
resource "terraform_data" "wrong" {{
  input = tonumber("twelve")
}}
resource "terraform_data" "guarded" {{
  lifecycle {{
    precondition {{
      condition     = nonsensitive(length(var.database_password)) < 3
      error_message = "The password ${{nonsensitive(var.database_password)}} is too long."
    }}
  }}
}}
""")
    run = shop.propose()
    fails(run, "plan-errored")
    lines = "\n".join(run.log("plan"))
    assert "twelve" in lines and "main.tf" in lines, lines


def test_a_configuration_that_the_engine_cannot_initialise_fails(workspace):
    shop = workspace()
    shop.configure(PLAIN.replace(">= 1.9", ">= 99"))
    run = shop.propose()
    fails(run, "init-failed")
    assert "does not support" in "\n".join(run.log("plan"))


def test_a_secret_that_a_script_prints_bit_by_bit_is_not_in_the_log(world, workspace):
    shop = workspace()
    shop.configure("""
variable "database_password" {
  type      = string
  sensitive = true
}
resource "terraform_data" "leak" {
  provisioner "local-exec" {
    command     = "sh ./leak.sh"
    environment = { SECRET = nonsensitive(var.database_password) }
  }
}
""")
    # In one piece; in two writes; byte by byte; behind a word on the same line; to standard error.
    shop.configure("""
printf 'whole: %s\\n' "$SECRET"
printf 'halves: %s' "${SECRET%%-*}"; printf -- '-%s\\n' "${SECRET#*-}"
printf 'bytes: '; printf '%s' "$SECRET" | dd bs=1 status=none; echo
printf 'error: %s\\n' "$SECRET" >&2
echo 'and no more'
""", "leak.sh")
    # A secret of several lines shows in pieces of its own: each is hidden.
    halves = [each for each in re.findall(r"[0-9a-f]{16}", shop.secret)]
    shop.world.gate.secret(shop.outputs, "database_password", f"begin-{halves[0]}\nend-{halves[1]}")
    run = shop.waiting()
    run.approve()
    run.ended_well("applied")
    lines = "\n".join(run.log("apply"))
    assert "and no more" in lines and lines.count("(secret)") >= 8, lines


# -- bundles -------------------------------------------------------------------------------------------------------

BACKEND = 'terraform {\n  backend "local" {\n    path = "elsewhere.tfstate"\n  }\n}\n'


@pytest.mark.parametrize("name", ["backend_override.tf", "override.tf", "zzz_override.tf"])
def test_an_override_file_that_brings_its_own_backend_is_refused(workspace, name):
    shop = workspace()
    shop.configure(BACKEND, name)
    assert shop.propose(expect=3).reason == "backend-in-override"
    run = propose_archive(shop, archive({"main.tf": PLAIN, name: BACKEND}), "applicable")
    assert name in fails(run, "bundle-refused")


def test_a_cloud_block_in_an_override_file_is_refused(workspace):
    cloud = '{"terraform":{"cloud":{"organization":"theirs","workspaces":{"name":"w"}}}}'
    fails(propose_archive(workspace(), archive({"main.tf": PLAIN, "x_override.tf.json": cloud})), "bundle-refused")


def test_a_configuration_s_own_backend_is_not_used(workspace):
    shop = workspace()
    shop.configure(PLAIN.replace("terraform {", 'terraform {\n  backend "local" {\n    path = "elsewhere.tfstate"\n  }'))
    shop.applied().ended_well("applied")
    assert json.loads(shop.state()[0])["resources"][0]["name"] == "one"


HOSTILE = {
    "path out of the folder": entry("../evil.tf", content=b"x"),
    "path out of the folder by a detour": entry("a/../../evil.tf", content=b"x"),
    "absolute path": entry("/tmp/evil.tf", content=b"x"),
    "link out of the folder": entry("out", tarfile.SYMTYPE, linkname="../../secret"),
    "absolute link": entry("out", tarfile.SYMTYPE, linkname="/etc/passwd"),
    "hard link": entry("hard", tarfile.LNKTYPE, linkname="main.tf"),
    "device": entry("device", tarfile.CHRTYPE, devmajor=1, devminor=3),
    "pipe": entry("pipe", tarfile.FIFOTYPE),
    "name twice": entry("main.tf", content=b"x"),
    "state": entry("terraform.tfstate", content=b"{}"),
    "engine data": entry(".terraform/terraform.tfstate", content=b"{}"),
    "variables of the engine's command line": entry("terraform.d/plugins/x", content=b"x"),
}


def test_hostile_archives_are_refused_one_and_all(world, workspace):
    """As plan-only runs: these do not wait for each other."""
    shop = workspace()
    bundles = {name: archive({"main.tf": PLAIN}, hostile) for name, hostile in HOSTILE.items()}
    bundles["more bytes than allowed"] = archive({"main.tf": PLAIN, "large": "0" * 300_000})
    bundles["more files than allowed"] = archive({"main.tf": PLAIN, **{f"file-{number}": "" for number in range(60)}})
    bundles["no configuration"] = archive({"readme.txt": "nothing"})
    with world.runner(limits={"bundle_bytes": 200_000, "bundle_files": 50}):
        runs = {name: propose_archive(shop, content) for name, content in bundles.items()}
        ends = {name: (run.end(), run.failure) for name, run in runs.items()}
    assert ends == dict.fromkeys(bundles, ("failed", "bundle-refused"))
    for run in runs.values():
        assert run.one_terminal_status() == "failed" and "plan-projected" not in run.happened()


@pytest.mark.parametrize("content", [b"no archive at all", archive({"main.tf": PLAIN})[:-200]], ids=["noise", "cut short"])
def test_a_damaged_archive_is_refused(workspace, content):
    fails(propose_archive(workspace(), content), "bundle-refused")


def test_a_module_that_was_not_captured_is_not_fetched(workspace):
    shop = workspace()
    call = 'module "network" {\n  source  = "terraform-aws-modules/vpc/aws"\n  version = "5.0.0"\n}\n'
    detail = fails(propose_archive(shop, archive({"main.tf": PLAIN + call}), "applicable"), "module-not-captured")
    assert "network" in detail


def test_a_module_outside_of_the_bundle_is_refused(workspace):
    shop = workspace()
    fails(propose_archive(shop, archive({"main.tf": PLAIN + 'module "m" {\n  source = "../theirs"\n}\n'})), "bundle-refused")


# -- the upload ----------------------------------------------------------------------------------------------------


def test_the_upload_takes_the_bytes_that_were_named_and_no_others(workspace):
    shop = workspace()
    content, other = archive({"main.tf": PLAIN}), archive({"main.tf": PLAIN.replace("input = 1", "input = 2")})
    assert len(content) == len(other)
    assert upload(shop, other, digest_of(content)) >= 400
    assert upload(shop, content + b"x", digest_of(content), size=len(content), drop=("content-length",)) >= 400
    assert upload(shop, other, digest_of(content), drop=("x-amz-checksum-sha256",)) >= 400
    body = {"request_id": "not-uploaded", "workspace": shop.id, "kind": "plan-only", "bundle": digest_of(content)}
    assert shop.world.person("alice").refused("POST", "/v1/runs", body) == (409, "bundle-missing")
    assert upload(shop, content) == 200
    propose(shop, digest_of(content)).ended_well("planned")


def test_a_bundle_of_another_workspace_is_not_this_one_s(workspace):
    shop, other = workspace(), workspace()
    content = archive({"main.tf": PLAIN})
    assert upload(other, content) == 200
    body = {"request_id": "their-bundle", "workspace": shop.id, "kind": "plan-only", "bundle": digest_of(content)}
    assert shop.world.person("alice").refused("POST", "/v1/runs", body) == (409, "bundle-missing")
