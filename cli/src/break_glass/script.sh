#!/usr/bin/env bash
# Plans and applies one workspace by hand, under its break-glass role. No part of the gate runs, and none is asked.
# Printed by `plangate break-glass print`, from nothing but its arguments. docs/break-glass.md tells when, and who may.
#
# Read it, then run it in a terminal with `bash THIS-FILE`: it asks before it plans and before it applies. It needs bash, the AWS
# CLI, plangate, the workspace's engine in its exact version, and your own AWS credentials (AWS_PROFILE, or as you are used to).
#
# While the gate still runs, freeze the workspace first, so that both do not work at once:
#   plangate freeze WORKSPACE --reason 'by hand: ...'
set -euo pipefail
umask 077

@names@

step() { printf '\n== %s\n' "$1" >&2; }
stop() { printf 'stopped: %s\n' "$1" >&2; exit 1; }
export AWS_REGION="$region" AWS_DEFAULT_REGION="$region" AWS_PAGER=''

step "1. For $workspace${name:+ ($name)}, become $role"
# The trust policy of the role lets in the people who are named in it, with a second factor. An hour is what a session lasts.
if [ -z "$session" ]; then session="by-hand-$(id -un | LC_ALL=C tr -cd 'A-Za-z0-9_.-' | cut -c 1-48)"; fi
factor=()
if [ "$second_factor" = code ]; then
  if [ -z "$mfa" ]; then read -r -p 'Serial number (ARN) of your MFA device: ' mfa; fi
  read -r -s -p 'Code that it shows: ' code
  printf '\n' >&2
  factor=(--serial-number "$mfa" --token-code "$code")
fi
given=$(aws sts assume-role --role-arn "$role" --role-session-name "$session" --duration-seconds 3600 \
  ${factor[@]+"${factor[@]}"} --query 'Credentials.[AccessKeyId,SecretAccessKey,SessionToken]' --output text)
IFS=$'\t' read -r AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN <<< "$given"
export AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN
unset AWS_PROFILE AWS_DEFAULT_PROFILE given code

step "2. Fetch the order of the run"
# An apply order names everything that a run needs: bundle, engine, state, key, and where the secrets are. The gate writes it
# once, and nobody can delete it. Runs sort by age, so the last order is the last run that was to be applied.
work=$(mktemp -d "${TMPDIR:-/tmp}/plangate-by-hand.XXXXXXXX")
tidy() {
  if [ -e "$work/run/source/errored.tfstate" ]; then
    printf '\nThe engine could not save the state. It is in %s, with its secrets: do not lose it.\n' "$work/run/source/errored.tfstate" >&2
    printf 'When the bucket answers again: cd %q && TF_DATA_DIR=%q %q state push errored.tfstate\n' "$work/run/source" "$work/run/data" "$engine" >&2
    return
  fi
  if [ ! -d "$work/run/source" ]; then rm -rf "$work"; return; fi
  # What holds secrets goes; the configuration stays, since what you changed in it stands nowhere else.
  rm -rf "$work/run/data" "$work"/*.tfvars.json "$work"/plan.*
  printf '\nThe configuration is in %s; remove it when your change is in its repository.\n' "$work/run/source" >&2
}
trap tidy EXIT
if [ -z "$run" ]; then
  orders=$(aws s3api list-objects-v2 --bucket "$exchange" --prefix "orders/$workspace/" --query 'Contents[].[Key]' --output text)
  place=$(printf '%s\n' "$orders" | { grep '/apply\.json$' || true; } | LC_ALL=C sort | tail -n 1)
  [ -n "$place" ] || stop "no run of $workspace was ever ordered to be applied"
else
  place="orders/$workspace/$run/apply.json"
fi
aws s3api get-object --bucket "$exchange" --key "$place" "$work/order.json" > /dev/null
field() { plangate break-glass read "$work/order.json" "$1" --workspace "$workspace"; }
field summary >&2

step "3. Fetch its bundle, check its digest, unpack it"
place=$(field bundle)
aws s3api get-object --bucket "$exchange" --key "$place" "$work/bundle.tar.zst" > /dev/null
# Makes run/source, with an override file that sets the backend, and run/data, with the list of the modules in the bundle.
plangate break-glass unpack "$work/bundle.tar.zst" "$work/run" --order "$work/order.json" --workspace "$workspace"
cd "$work/run/source"

step "4. Find the engine"
# Another version may write a state that the pinned one cannot read. PLANGATE_ENGINE names the binary, if it is not on PATH.
IFS=$'\t' read -r engine wanted <<< "$(field engine)"
engine=${PLANGATE_ENGINE:-$engine}
command -v "$engine" > /dev/null || stop "there is no $engine: install $wanted, or set PLANGATE_ENGINE"
# Nothing of your own environment steers it, but for where it finds providers.
while IFS= read -r variable; do
  case $variable in TF_CLI_CONFIG_FILE | TF_PLUGIN_CACHE_DIR) ;; TF_*) unset "$variable" ;; esac
done < <(compgen -e)
export TF_DATA_DIR="$work/run/data" CHECKPOINT_DISABLE=1
IFS= read -r found < <("$engine" version) || true
[ "$found" = "$wanted" ] || stop "$engine is $found, and the workspace wants $wanted"

step "5. Read the secrets"
# From Parameter Store into a file that only you can read; no value is an argument of a program.
secrets=$(field secrets)
variables=()
if [ -n "$secrets" ]; then
  {
    before='{'
    while IFS=$'\t' read -r variable parameter; do
      value=$(aws ssm get-parameters --names "$parameter" --with-decryption --query 'Parameters[0].Value' --output json)
      [ "$value" != null ] || stop "the parameter $parameter is not there"
      printf '%s"%s":%s' "$before" "$variable" "$value"
      before=','
    done <<< "$secrets"
    printf '}\n'
    unset value
  } > "$work/secrets.tfvars.json"
  variables=(-var-file="$work/secrets.tfvars.json")
fi
# OpenTofu wants variables before it plans too, Terraform does not.
early=()
case $wanted in OpenTofu*) early=(${variables[@]+"${variables[@]}"}) ;; esac

step "6. Initialise, with the state's backend as the runner sets it: S3, locked by an object beside the state"
settings=$(field backend)
backend=()
while IFS= read -r setting; do backend+=("-backend-config=$setting"); done <<< "$settings"
"$engine" init -input=false -get=false -lockfile=readonly "${backend[@]}" ${early[@]+"${early[@]}"}
IFS=$'\t' read -r bucket key <<< "$(field state)"
version() { aws s3api head-object --bucket "$bucket" --key "$key" --query VersionId --output text 2> /dev/null || printf 'none\n'; }
before=$(version)

step "7. Change what has to be changed, then plan"
printf 'The configuration is in %s. Change it there, from another terminal.\n' "$work/run/source" >&2
read -r -p 'Press Enter to plan. '
# The engine's own picture of a plan would show what providers copy out of secrets; the projection does not, and a plan cannot steer
# the terminal by it. Errors are shown as they come.
changes=0
"$engine" plan -no-color -input=false -lock-timeout=60s -detailed-exitcode ${variables[@]+"${variables[@]}"} \
  -out="$work/plan.tfplan" > "$work/plan.log" || changes=$?
case $changes in
  0) printf '\nThere is nothing to apply.\n' >&2; exit 0 ;;
  2) ;;
  *) stop "the plan failed" ;;
esac
"$engine" show -json ${early[@]+"${early[@]}"} "$work/plan.tfplan" > "$work/plan.json"
plangate project "$work/plan.json"

step "8. Apply that plan, and no other"
read -r -p "Type $workspace to apply what you have just read: " answer
[ "$answer" = "$workspace" ] || stop "nothing was applied"
# A plan carries its variables, but for ephemeral ones.
again=()
if [ -n "$secrets" ]; then
  plangate break-glass ephemeral "$work/plan.json" "$work/secrets.tfvars.json" > "$work/apply.tfvars.json"
  if [ -s "$work/apply.tfvars.json" ]; then again=(-var-file="$work/apply.tfvars.json"); fi
fi
# Outputs, which the engine prints at the end, stay in the state.
ended=0
"$engine" apply -no-color -input=false -lock-timeout=60s ${again[@]+"${again[@]}"} "$work/plan.tfplan" | sed '/^Outputs:$/,$d' || ended=$?

step "9. Afterwards"
cat >&2 << END
The state was version $before of s3://$bucket/$key, and is version $(version).
- Bring what you changed into its repository: the next run would take it back.
- Tell the workspace's owner: who, when, why, these two versions.
- Once the gate runs again, make a plan-only run. It records that the state changed outside of the gate. If the workspace is
  closed:  plangate workspace acknowledge $workspace --run RUN --note TEXT
- Lift the freeze:  plangate unfreeze $workspace --reason TEXT
- CloudTrail has who took the role, and when:
    aws cloudtrail lookup-events --region $region --lookup-attributes AttributeKey=EventName,AttributeValue=AssumeRole \\
      --query "Events[?contains(CloudTrailEvent, '$role')].[EventTime,Username,EventId]" --output table
END
[ "$ended" = 0 ] || stop "the engine ended with $ended: look at the estate, then plan again"
