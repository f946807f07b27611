// A title of one's own for a chat.
import { useState } from 'react';
import { Dialog, DialogTrigger, Heading, Input, Modal, ModalOverlay, TextField } from 'react-aria-components';
import { Problem, ofChat } from './api';
import { useSession } from './session';
import { texts } from './text';
import { Button, Icon, Trouble } from './widgets';

/** Maximum length of a title, in characters, as the API has it. */
const LONGEST = 128;

export function Rename({ chat, title, onRenamed }: { chat: string; title: string; onRenamed: () => void }) {
  const { api, tell } = useSession();
  const [text, setText] = useState(title);
  const [problem, setProblem] = useState<Problem | null>(null);
  const rename = async (close: () => void) => {
    // To store it would keep it from following the chat.
    if (text === title) return close();
    try {
      await api.send('PATCH', ofChat(chat), { title: text.trim() === '' ? null : text.trim() });
      tell(texts.renamed);
      close();
      onRenamed();
    } catch (error) {
      setProblem(Problem.from(error));
    }
  };
  const opened = () => {
    setText(title);
    setProblem(null);
  };
  return (
    <DialogTrigger onOpenChange={opened}>
      <Button look="icon" aria-label={texts.rename}>
        <Icon name="edit" />
      </Button>
      <ModalOverlay className="overlay" isDismissable>
        <Modal className="modal">
          <Dialog>
            {({ close }) => (
              <form
                onSubmit={event => {
                  event.preventDefault();
                  void rename(close);
                }}
              >
                <Heading slot="title">{texts.rename}</Heading>
                <TextField value={text} onChange={setText} aria-label={texts.titleOfChat} autoFocus>
                  <Input maxLength={LONGEST} />
                </TextField>
                <p className="small">{texts.renameWhat}</p>
                {problem && <Trouble problem={problem} />}
                <div className="row end">
                  <Button onPress={close}>{texts.cancel}</Button>
                  <Button look="main" type="submit">
                    {texts.save}
                  </Button>
                </div>
              </form>
            )}
          </Dialog>
        </Modal>
      </ModalOverlay>
    </DialogTrigger>
  );
}
