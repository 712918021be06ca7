"""The real litellm: its Router takes our strategy, its proxy our hook."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings

import pytest

from .small import HERE

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    litellm = pytest.importorskip("litellm", reason="the gateway whose plugin this is")
    from nasheval.serving.litellm import Hook, Strategy, last_prompt

pytestmark = [
    pytest.mark.filterwarnings("ignore"),  # of litellm and what it imports
    pytest.mark.slow,
]
ASKED = [{"role": "user", "content": "hello"}]


def router(names="abcd"):
    def deployment(name):
        params = {"model": f"openai/{name}", "api_key": "none", "mock_response": f"I am {name}"}
        return {"model_name": name, "litellm_params": params}

    return litellm.Router(model_list=[deployment(name) for name in names], num_retries=0)


@pytest.fixture(scope="module")
def service(tmp_path_factory, model):
    from .small import Server

    folder = tmp_path_factory.mktemp("litellm")
    one = Server(model, "--store", folder / "votes.db", log=folder / "log")
    yield one
    one.stop()


def said(answer):
    return answer.choices[0].message.content


def test_a_router_takes_the_agent_that_the_service_names(service):
    import httpx

    made = router()
    made.set_custom_routing_strategy(Strategy(made, service.url))
    for context in ({"language": "en", "size": 0.0}, {"language": "de", "size": 0.0}):
        body = {"context": context, "session": f"s {context['language']}"}
        wanted = httpx.post(f"{service.url}/v1/route", json=body).json()["agent"]
        metadata = {"nasheval": dict(body)}
        answer = made.completion(model="nasheval", messages=ASKED, metadata=metadata)
        assert said(answer) == f"I am {wanted}"
        later = asyncio.run(made.acompletion(model="nasheval", messages=ASKED, metadata={"nasheval": dict(body)}))
        assert said(later) == f"I am {wanted}"


def test_other_models_go_where_they_would(service):
    made = router()
    made.set_custom_routing_strategy(Strategy(made, service.url))
    assert said(made.completion(model="c", messages=ASKED)) == "I am c"


def test_only_groups_of_the_router_are_chosen(service):
    made = router("cd")
    made.set_custom_routing_strategy(Strategy(made, service.url))
    for _ in range(5):
        assert said(made.completion(model="nasheval", messages=ASKED)) in ("I am c", "I am d")


def test_where_the_service_is_gone_the_fallback_answers_or_an_error():
    made = router()
    made.set_custom_routing_strategy(Strategy(made, "http://127.0.0.1:9", fallback="b"))
    assert said(made.completion(model="nasheval", messages=ASKED)) == "I am b"
    made = router()
    made.set_custom_routing_strategy(Strategy(made, "http://127.0.0.1:9"))
    with pytest.raises(Exception, match=r"refused|Connect"):
        made.completion(model="nasheval", messages=ASKED)


def test_the_decision_is_in_the_metadata_and_a_vote_can_name_it(service):
    import httpx

    made = router()
    made.set_custom_routing_strategy(Strategy(made, service.url))
    seen = {}

    class Kept(litellm.integrations.custom_logger.CustomLogger):
        def log_success_event(self, kwargs, response_obj, start_time, end_time):
            seen.update(kwargs["litellm_params"]["metadata"])

    litellm.callbacks.append(Kept())
    try:
        made.completion(model="nasheval", messages=ASKED, metadata={"nasheval": {"context": HERE}})
        for _ in range(100):
            if seen:
                break
            asyncio.run(asyncio.sleep(0.05))
    finally:
        litellm.callbacks.clear()
    vote = {"decision_id": seen["nasheval"]["decision_id"], "menu": ["a", "b"], "winner": "a"}
    assert httpx.post(f"{service.url}/v1/feedback", json=vote).status_code == 201


def test_the_hook_of_the_proxy_changes_the_model_and_tells_the_decision(service):
    hook = Hook(service.url)
    assert isinstance(hook, litellm.integrations.custom_logger.CustomLogger)
    data = {"model": "nasheval", "messages": ASKED, "metadata": {"nasheval": {"context": HERE}}}
    data = asyncio.run(hook.async_pre_call_hook(None, None, data, "completion"))
    assert data["model"] in "abcd"
    headers = asyncio.run(hook.async_post_call_response_headers_hook(data, None, None))
    assert headers["x-nasheval-agent"] == data["model"]
    assert headers["x-nasheval-decision"].count(".") == 2
    other = {"model": "c", "messages": ASKED}
    assert asyncio.run(hook.async_pre_call_hook(None, None, dict(other), "completion")) == other
    assert asyncio.run(hook.async_post_call_response_headers_hook(other, None, None)) is None


def test_the_last_prompt_of_messages():
    parts = [{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]
    assert last_prompt([{"role": "user", "content": parts}, {"role": "assistant", "content": "x"}]) == "a\nb"
    assert last_prompt([{"role": "system", "content": "x"}]) is None
    assert last_prompt(None) is None


def test_nothing_of_ours_imports_litellm():
    code = "import nasheval.serving.app, nasheval.cli.serving, sys; print('litellm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
