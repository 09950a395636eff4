# Sourced by the other scripts: makes .venv with the pinned packages and this project, once per change of the pins.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

loadgen_setup() {
  local stamp=.venv/.made-from
  if [ -f "$stamp" ] && cmp -s "$stamp" scripts/requirements.txt; then
    return
  fi
  local python=${PYTHON:-python3}
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "error: $("$python" --version) is too old" >&2
    echo "hint: set PYTHON to a Python of 3.11 or newer" >&2
    return 1
  }
  echo "setting up .venv" >&2
  rm -rf .venv
  if command -v uv >/dev/null 2>&1; then
    uv venv --quiet --python "$python" .venv
    uv pip install --quiet --python .venv/bin/python --require-hashes -r scripts/requirements.txt
    uv pip install --quiet --python .venv/bin/python --no-deps --no-build-isolation -e .
  else
    "$python" -m venv .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r scripts/requirements.txt
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
  fi
  cp scripts/requirements.txt "$stamp"
}

loadgen_setup
